#include "io/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>
#include <unicode/utf8.h>

#include <cstdio>
#include <memory>

#include "base/error.h"

namespace zoetrope {
namespace {

icu::UnicodeString wide(std::u32string_view text) {
  return icu::UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(text.data()),
                                       static_cast<int32_t>(text.size()));
}

std::u32string narrow(const icu::UnicodeString& text) {
  std::u32string out;
  for (int32_t at = 0; at < text.length(); at = text.moveIndex32(at, 1))
    out.push_back(static_cast<char32_t>(text.char32At(at)));
  return out;
}

std::u32string normalized(std::u32string_view text, const icu::Normalizer2* (*form)(UErrorCode&)) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = form(status);
  const icu::UnicodeString result =
      U_SUCCESS(status) ? normalizer->normalize(wide(text), status) : icu::UnicodeString();
  if (U_FAILURE(status)) fail(Code::device, "unicode: ICU cannot normalize text: ", u_errorName(status));
  return narrow(result);
}

std::string hex_byte(char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

std::u32string code_points(std::string_view utf8, std::string_view what) {
  std::u32string out;
  const auto size = static_cast<int32_t>(utf8.size());
  for (int32_t at = 0; at < size;) {
    const int32_t start = at;
    UChar32 c = 0;
    U8_NEXT(utf8.data(), at, size, c);
    require(c >= 0, what, ": byte ", start, " (", hex_byte(utf8[static_cast<size_t>(start)]), ") is not valid UTF-8");
    require(c != 0, what, ": byte ", start, " is NUL; a prompt is text");
    out.push_back(static_cast<char32_t>(c));
  }
  return out;
}

std::string utf8_of(std::u32string_view text) {
  std::string out;
  wide(text).toUTF8String(out);
  return out;
}

std::vector<std::string_view> characters(std::string_view utf8) {
  std::vector<std::string_view> parts;
  const auto size = static_cast<int32_t>(utf8.size());
  for (int32_t at = 0, start = 0; at < size; start = at) {
    U8_FWD_1(utf8.data(), at, size);
    parts.push_back(utf8.substr(static_cast<size_t>(start), static_cast<size_t>(at - start)));
  }
  return parts;
}

std::vector<std::string_view> graphemes(std::string_view utf8) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  const std::unique_ptr<UText, decltype(&utext_close)> text(
      utext_openUTF8(nullptr, utf8.data(), static_cast<int64_t>(utf8.size()), &status), utext_close);
  if (U_SUCCESS(status)) breaks->setText(text.get(), status);
  if (U_FAILURE(status)) fail(Code::device, "unicode: ICU cannot find graphemes: ", u_errorName(status));
  std::vector<std::string_view> parts;
  for (int32_t from = 0, to; (to = breaks->next()) != icu::BreakIterator::DONE; from = to)
    parts.push_back(utf8.substr(static_cast<size_t>(from), static_cast<size_t>(to - from)));
  return parts;
}

std::u32string nfc(std::u32string_view text) { return normalized(text, icu::Normalizer2::getNFCInstance); }
std::u32string nfkc(std::u32string_view text) { return normalized(text, icu::Normalizer2::getNFKCInstance); }
std::u32string upper_case(std::u32string_view text) { return narrow(wide(text).toUpper(icu::Locale::getRoot())); }

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }
bool is_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || is_white_space(c); }

char32_t windows_1252(char32_t c) {
  constexpr char32_t meant[32] = {0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021,
                                  0x2C6,  0x2030, 0x160,  0x2039, 0x152,  0x8D,   0x17D,  0x8F,
                                  0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                  0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};
  return c >= 0x80 && c <= 0x9F ? meant[c - 0x80] : c;
}

}  // namespace zoetrope
