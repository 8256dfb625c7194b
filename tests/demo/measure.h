// Reads colour, motion and size class of the shapes in a clip from its pixels, without knowing how it was made: every
// pixel is given the nearest of the colours that the training clips are made of; the pixels of one object colour are
// that object, and its centre and area are followed from frame to frame. The rules are those of
// tools/train_demo/measure.py.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/video.h"

namespace zoetrope::demo {

struct Found {
  std::string colour;
  std::string motion;  // left right up down circle bounce grow shrink still other unseen
  double area = 0;     // median share of a frame
  double core = 0;     // mean share of a frame, edges left out
};

std::vector<Found> measure(const Video& clip);  // object colours that are there, most pixels first

// Which of the asked-for properties a clip has, all objects together. `asked`: [{colour, shape, size, motion}].
struct Obeyed {
  bool colour = false, direction = false, size = false;
};
Obeyed judge(const std::vector<Found>& found, const Json& asked);

}  // namespace zoetrope::demo
