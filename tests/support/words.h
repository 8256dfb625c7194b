// words([] { ... }): the text of the Error that the call throws, or "no error". Wrong use is tested by its words.
// code_of([] { ... }): its code, where a caller acts on it.
#pragma once
#include <optional>
#include <string>

#include "base/error.h"

namespace zoetrope {

template <class F>
std::string words(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

template <class F>
std::optional<Code> code_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return {};
}

}  // namespace zoetrope
