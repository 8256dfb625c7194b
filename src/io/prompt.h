// A prompt as diffusers' Wan pipeline cleans it, with ftfy installed.
#pragma once
#include <string>
#include <string_view>

namespace zoetrope {

inline constexpr size_t max_prompt_bytes = 64u << 10;

// ftfy's repairs line by line until nothing changes (entities unless the text holds '<', C1 controls, ligatures, full
// and half width, quotes, line breaks, terminal escapes, control characters, NFC), then HTML entities twice, then white
// space collapsed to single spaces and trimmed. Left out: ftfy's guess at text decoded with a wrong charset (mojibake).
// Error(invalid): NUL, invalid UTF-8 (byte position), more than 64 KiB.
std::string clean_prompt(std::string_view prompt);

}  // namespace zoetrope
