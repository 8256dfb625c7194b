// Where a video goes: an MP4, a folder of PNGs, or a safetensors file, by the name it was given. Nothing stands under
// that name before the video is whole; what is cancelled or fails leaves no trace.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "base/json.h"
#include "pipeline/hooks.h"

namespace zoetrope {

class Output : public FrameSink {
 public:
  virtual void describe(const Json& recipe) = 0;  // before begin: goes into the file's metadata
  virtual Json facts() const = 0;                 // after finish: path, width, height, num_frames, fps, sha256_frames
};

// FILE.mp4, FILE.safetensors (uint8 `frames` [T, H, W, 3]), or a folder (a trailing slash, or a name without a dot). A
// name that is but an ending, ".mp4", is refused. Checks now what would fail at the end: a folder that is missing or
// cannot be written, an encoder that is not there.
std::unique_ptr<Output> open_output(const std::filesystem::path& target, const std::filesystem::path& program_folder,
                                    std::string_view path_variable);

// For a process that must end now: removes what a writer of `target` has under its temporary name (base/file.h), in
// this process or in another that is gone.
void remove_partial(const std::filesystem::path& target, pid_t writer = ::getpid());

}  // namespace zoetrope
