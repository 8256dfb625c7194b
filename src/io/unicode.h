// Text as code points, and the few Unicode operations that prompts need.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zoetrope {

// Error(invalid) names the first byte that is NUL or not valid UTF-8. `what` starts the message: "prompt".
std::u32string code_points(std::string_view utf8, std::string_view what);
std::string utf8_of(std::u32string_view text);

std::vector<std::string_view> characters(std::string_view utf8);  // what is not UTF-8 by itself, somehow cut
std::vector<std::string_view> graphemes(std::string_view utf8);   // extended grapheme clusters

std::u32string nfc(std::u32string_view text);
std::u32string nfkc(std::u32string_view text);
std::u32string upper_case(std::u32string_view text);  // full mapping, no locale: sharp s becomes SS

bool is_white_space(char32_t c);    // Unicode White_Space
bool is_space(char32_t c);          // White_Space and U+001C..001F, as Python's str.isspace
char32_t windows_1252(char32_t c);  // what a C1 control (U+0080..009F) was meant to be

}  // namespace zoetrope
