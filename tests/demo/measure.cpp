#include "demo/measure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace zoetrope::demo {
namespace {

using Colour = std::array<double, 3>;

struct Named {
  const char* name;
  Colour rgb;
};
constexpr Named colours[] = {{"red", {220, 35, 35}},     {"orange", {250, 140, 20}}, {"yellow", {245, 220, 40}},
                             {"green", {40, 165, 65}},   {"cyan", {40, 200, 220}},   {"blue", {45, 85, 225}},
                             {"purple", {135, 50, 190}}, {"pink", {250, 120, 185}}};
constexpr Colour backgrounds[] = {{245, 245, 245}, {130, 130, 130}, {15, 15, 15},
                                  {240, 228, 200}, {20, 28, 75},    {85, 62, 45}};
const std::map<std::string, double> area_over_radius2 = {{"circle", 3.142}, {"square", 2.959}, {"triangle", 1.871},
                                                         {"star", 1.905},   {"ring", 2.292},   {"cross", 2.257}};
constexpr double big = 0.14;        // radius, in frame sides, from which an object is big
constexpr double moved = 0.10;      // shift of the centre, in frame sides, from which an object moves
constexpr double visible = 0.0015;  // share of the pixels from which a colour is there

// Distance counts hue and saturation more than brightness, so that a dark red edge is still red.
std::array<double, 4> split(const Colour& c) {
  const double mean = (c[0] + c[1] + c[2]) / 3;
  return {0.8 * mean, c[0] - mean, c[1] - mean, c[2] - mean};
}

// Object colours first, then the backgrounds and what lies between two of them.
std::vector<std::array<double, 4>> palette() {
  std::vector<std::array<double, 4>> all;
  for (const Named& colour : colours) all.push_back(split(colour.rgb));
  for (const Colour& colour : backgrounds) all.push_back(split(colour));
  for (size_t i = 0; i < std::size(backgrounds); ++i)
    for (size_t j = 0; j < i; ++j)
      for (const double t : {0.25, 0.5, 0.75}) {
        Colour mix;
        for (size_t k = 0; k < 3; ++k) mix[k] = backgrounds[i][k] * (1 - t) + backgrounds[j][k] * t;
        all.push_back(split(mix));
      }
  return all;
}

std::vector<uint8_t> classify(const Video& clip) {
  const auto all = palette();
  std::vector<uint8_t> labels(clip.rgb.size() / 3);
  for (size_t i = 0; i < labels.size(); ++i) {
    const uint8_t* p = &clip.rgb[3 * i];
    const auto point = split({double(p[0]), double(p[1]), double(p[2])});
    double best = std::numeric_limits<double>::max();
    for (size_t k = 0; k < all.size(); ++k) {
      double d = 0;
      for (size_t j = 0; j < 4; ++j) d += (point[j] - all[k][j]) * (point[j] - all[k][j]);
      if (d < best) best = d, labels[i] = static_cast<uint8_t>(k);
    }
  }
  return labels;
}

// Centre (in frame sides) and share of the frame, for the frames in which the object is seen.
struct Track {
  int frames = 0;
  std::vector<double> x, y, share;
  std::vector<double> all_shares;
  double core = 0;
};

Track follow(const Video& clip, const std::vector<uint8_t>& labels, uint8_t label) {
  Track track;
  track.frames = clip.frames;
  const int h = clip.height, w = clip.width;
  int64_t core = 0;
  for (int t = 0; t < clip.frames; ++t) {
    const uint8_t* frame = &labels[static_cast<size_t>(t) * static_cast<size_t>(h * w)];
    const auto is = [&](int r, int c) { return r < 0 || c < 0 || r >= h || c >= w || frame[r * w + c] == label; };
    double count = 0, x = 0, y = 0;
    for (int r = 0; r < h; ++r)
      for (int c = 0; c < w; ++c) {
        if (frame[r * w + c] != label) continue;
        ++count, x += c + 0.5, y += r + 0.5;
        core += is(r - 1, c) && is(r + 1, c) && is(r, c - 1) && is(r, c + 1);
      }
    const double share = count / (h * w);
    track.all_shares.push_back(share);
    if (share < visible / 3) continue;
    track.x.push_back(x / count / w), track.y.push_back(y / count / h), track.share.push_back(share);
  }
  track.core = static_cast<double>(core) / (static_cast<double>(clip.frames) * h * w);
  return track;
}

double mean(const double* first, size_t n) { return std::accumulate(first, first + n, 0.0) / static_cast<double>(n); }
double range(const std::vector<double>& v) {
  const auto [low, high] = std::ranges::minmax_element(v);
  return *high - *low;
}

std::string motion_of(const Track& track) {
  const size_t seen = track.x.size();
  if (seen < static_cast<size_t>(std::max(3, track.frames / 2))) return "unseen";
  const size_t n = std::max<size_t>(1, seen / 6);
  const auto shift = [&](const std::vector<double>& v) { return mean(&v[seen - n], n) - mean(v.data(), n); };
  const double dx = shift(track.x), dy = shift(track.y), ax = std::fabs(dx), ay = std::fabs(dy);
  double steps = 0;
  for (size_t i = 1; i < seen; ++i) steps += std::hypot(track.x[i] - track.x[i - 1], track.y[i] - track.y[i - 1]);
  const double straight = std::hypot(dx, dy), span_x = range(track.x), span_y = range(track.y);
  if (straight > moved && straight > 0.55 * steps && std::max(ax, ay) > 2 * std::min(ax, ay))
    return ax > ay ? (dx > 0 ? "right" : "left") : (dy > 0 ? "down" : "up");
  if (std::min(span_x, span_y) > 0.6 * std::max(span_x, span_y) && span_x > 2 * moved) return "circle";
  if (span_y > 1.5 * moved && span_x < 0.5 * span_y) return "bounce";
  const double growth = mean(&track.share[seen - n], n) / std::max(mean(track.share.data(), n), 1e-6);
  if (growth > 2 || growth < 0.5) return growth > 1 ? "grow" : "shrink";
  return straight < moved ? "still" : "other";
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  const size_t half = v.size() / 2;
  return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

}  // namespace

std::vector<Found> measure(const Video& clip) {
  const std::vector<uint8_t> labels = classify(clip);
  std::vector<Found> found;
  for (size_t i = 0; i < std::size(colours); ++i) {
    const Track track = follow(clip, labels, static_cast<uint8_t>(i));
    if (track.core >= visible)
      found.push_back({colours[i].name, motion_of(track), median(track.all_shares), track.core});
  }
  std::ranges::stable_sort(found, std::greater{}, &Found::core);
  return found;
}

Obeyed judge(const std::vector<Found>& found, const Json& asked) {
  const auto of_colour = [&](const Json& object) {
    return std::ranges::find(found, object.at("colour").get<std::string>(), &Found::colour);
  };
  Obeyed ok{true, true, true};
  for (const Json& object : asked) {
    const auto it = of_colour(object);
    ok.colour = ok.colour && static_cast<size_t>(it - found.begin()) < asked.size();
    if (it == found.end()) return {ok.colour, false, false};
    const std::string motion = object.at("motion");
    ok.direction = ok.direction && it->motion == (motion.find("clockwise") != std::string::npos ? "circle" : motion);
    const double radius = std::sqrt(it->area / area_over_radius2.at(object.at("shape")));
    ok.size = ok.size && (radius > big) == (object.at("size") == "big");
  }
  return ok;
}

}  // namespace zoetrope::demo
