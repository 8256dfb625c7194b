#include "engine/crew.h"

#include <algorithm>

#include "comm/agree.h"
#include "config/fields.h"
#include "engine/alike.h"

namespace zoetrope {
namespace {

constexpr const char* dismissed = "end";

// What was asked for, or what the rule gives.
Layout choose(const EngineConfig& config, const Model& model, int ranks) {
  const MeshHeads heads = model.heads();
  const auto guidance = [&] { return config.guidance ? *config.guidance : model.resolve({}).guidance_scale; };
  const Layout layout = config.layout ? *config.layout : Layout{default_mesh(ranks, guidance(), heads), {}};
  check(layout.shape, ranks, heads);
  return layout;
}

// Rank 0's request as the others hear it. Apart stand what nobody else was told: a seed that was drawn, and that only a
// shape is to be made ready.
std::string order_of(const Task& task) {
  Json order = to_json(task.ask);
  order["drawn"] = task.request.seed, order["warm_up"] = task.warm_up;
  return order.dump();
}

Json said_of(Json order) {
  order.erase("drawn"), order.erase("warm_up");
  return order;
}

Task task_of(const Model& model, const std::string& text) {
  const Json order = parse_json(text, "rank 0");
  Ask ask = ask_from_json(said_of(order));
  ask.seed = order.at("drawn").get<uint64_t>();
  Task task = model.task(ask);
  task.warm_up = order.at("warm_up");
  return task;
}

// `said` is what each rank was told. Shapes are made ready before anybody's request.
void require_same_request(std::vector<std::string> said) {
  const Json order = parse_json(said[0], "rank 0");
  if (order.at("warm_up")) return;
  said[0] = said_of(order).dump();
  require_alike(said);
}

}  // namespace

Crew::Crew(const EngineConfig& config, const Model& model, World& world)
    : layout_(choose(config, model, world.size())),
      world_(world),
      common_{config, model, layout_, world, weights_},
      threads_(std::max(1, config.thread_count() / static_cast<int>(world.here().size()))),
      workers_(world.here().size()) {
  world_.when_aborted([this] {
    std::unique_lock lock(halting_);
    std::stop_source halt = halt_;
    lock.unlock();
    halt.request_stop();
  });
  try {
    for (size_t i = 1; i < workers_.size(); ++i)
      followers_.emplace_back([this, i] {
        try {
          start(i);
        } catch (...) {
          return world_.abort(current_cause(world_.here()[i]));
        }
        serve(i);
      });
    start(0);
  } catch (const AgreedError&) {
    for (auto& follower : followers_) follower.join();
    throw;
  } catch (...) {
    if (world_.size() == 1) throw;
    world_.abort(current_cause(world_.here()[0]));
    for (auto& follower : followers_) follower.join();
    const auto cause = world_.cause();
    throw Error(cause->code, cause->words());
  }
}

Crew::~Crew() {
  end();
  for (auto& follower : followers_) follower.join();
  world_.when_aborted({});
}

void Crew::start(size_t index) {
  workers_[index] = std::make_unique<RankWorker>(common_, world_.here()[index], threads_);
}

int Crew::threads() const { return threads_ * static_cast<int>(workers_.size()); }

void Crew::end() noexcept {
  if (lost_ || workers_[0]->number() != 0 || world_.size() == 1) return;
  try {
    workers_[0]->meet(dismissed);
  } catch (const std::exception&) {  // they are gone already
  }
}

std::stop_source Crew::begin() {
  const std::lock_guard lock(halting_);
  halt_ = std::stop_source();
  return halt_;
}

std::stop_token Crew::halted() {
  const std::lock_guard lock(halting_);
  return halt_.get_token();
}

// An error of this rank alone, which is being handled: frees the others, and waits until they are ready again. The
// first cause of all, which may be another.
Error Crew::leave(int number) {
  world_.abort(current_cause(number));
  const Cause cause = *world_.cause();
  try {
    if (!world_.recover(number)) lost_ = true;
  } catch (const Error&) {
    lost_ = true;
  }
  return {cause.code, cause.words()};
}

RankResult Crew::run(const Task& task, const Hooks& hooks, Output* output) {
  if (lost_) fail(Code::comm, "ranks: they were lost with an earlier job; start the program again");
  std::stop_source halt = begin();
  const std::stop_callback forward(hooks.stop, [halt]() mutable { halt.request_stop(); });
  RankWorker& first = *workers_[0];
  try {
    require_same_request(first.meet(order_of(task)));
    return first.run([&] { return task; }, {halt.get_token(), hooks.progress}, output);
  } catch (const AgreedError&) {
    throw;
  } catch (...) {
    const auto own = std::current_exception();
    const Error cause = leave(0);
    if (world_.size() == 1) std::rethrow_exception(own);
    throw cause;
  }
}

// One order of rank 0; false once it lets go.
bool Crew::obey(RankWorker& worker, const std::string& expected) {
  const std::vector<std::string> said = worker.meet(expected);
  if (said[0] == dismissed) return false;
  require_same_request(said);
  worker.run([&] { return task_of(common_.model, said[0]); }, {halted(), {}}, nullptr);
  return true;
}

void Crew::serve(size_t index) {
  RankWorker& worker = *workers_[index];
  while (!lost_) try {
      if (!obey(worker, "")) return;
    } catch (const AgreedError&) {  // rank 0 says it
    } catch (...) {
      leave(worker.number());
    }
}

void Crew::follow(const Json& expected, const std::stop_token& stop) {
  RankWorker& worker = *workers_[0];
  std::exception_ptr failed;
  for (bool more = true; more;) {
    std::stop_source halt = begin();
    const std::stop_callback forward(stop, [halt]() mutable { halt.request_stop(); });
    try {
      more = obey(worker, expected.empty() ? "" : expected.dump());
      if (more) failed = nullptr;
    } catch (const AgreedError&) {
      failed = std::current_exception();
    } catch (...) {
      throw leave(worker.number());
    }
  }
  if (failed) std::rethrow_exception(failed);
}

}  // namespace zoetrope
