// words([] { ... }): the text of the Error that the call throws, or "no error". Wrong use is tested by its words.
#pragma once
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

}  // namespace zoetrope
