// Errors are exceptions with a code, thrown where the cause is known and translated once at each edge
// (exit status, HTTP, gRPC). A message is one line: what was asked, why not, what would do.
#pragma once
#include <stdexcept>
#include <string>

#include "base/cat.h"

namespace zoetrope {

enum class Code {
  invalid,        // the caller's input: exit 2, HTTP 400
  unsupported,    // understood, not built here: exit 2, HTTP 501
  busy,           // good, but not now; the same again later may do: exit 4, HTTP 503
  out_of_memory,  // exit 3, HTTP 507
  comm,           // a peer failed or never came: exit 4, HTTP 503
  device,         // a device or library failed: exit 4, HTTP 500
  cancelled,      // asked to stop: exit 130, HTTP 499
};

const char* name(Code code);

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& what) : std::runtime_error(what), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

template <class... Parts>
[[noreturn]] void fail(Code code, const Parts&... parts) {
  throw Error(code, cat(parts...));
}

// Throws Code::invalid with the joined parts unless `ok`. For what callers can get wrong; assert is for our own bugs.
template <class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw Error(Code::invalid, cat(parts...));
}

}  // namespace zoetrope
