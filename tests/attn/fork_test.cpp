// The forked forms give the same bits whatever is late: projections, attention, or the exchanges on the side.
#include <mutex>

#include "attn/sharded.h"

namespace zoetrope::attn {
namespace {

// Sleeps now and then, up to 300 microseconds; from any thread.
class Delay {
 public:
  explicit Delay(unsigned seed) : engine_(seed) {}
  void operator()() {
    std::unique_lock lock(mutex_);
    const unsigned draw = engine_();
    lock.unlock();
    if (draw % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw / 3 % 300));
  }

 private:
  std::mutex mutex_;
  std::mt19937 engine_;
};

// A side thread whose every job begins late.
class LateStream final : public Stream {
 public:
  explicit LateStream(unsigned seed) : delay_(seed), stream_(thread_stream()) {}
  bool immediate() const override { return false; }
  void submit(Job job) override {
    stream_->submit([this, job = std::move(job)] { delay_(), job(); });
  }
  Event record() override { return stream_->record(); }
  void wait(const Event& e) override { stream_->wait(e); }
  void sync() override { stream_->sync(); }
  void block_until(uint64_t number) override { stream_->block_until(number); }

 private:
  Delay delay_;
  std::unique_ptr<Stream> stream_;  // last: its thread uses the delay
};

class LateDense final : public Attention {
 public:
  explicit LateDense(unsigned seed) : delay_(seed) {}
  void reserve(const Geometry&) override {}
  Partial run(Ctx& c, Source& source) override {
    delay_();
    const Partial part = Dense().run(c, source);
    delay_();
    return part;
  }

 private:
  Delay delay_;
};

struct Late : testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Forks, Late,
                         testing::Values(Case{{.ulysses = 4}, {}}, Case{{.ulysses = 4}, {UlyssesForm::kv_packed}},
                                         Case{{.ring = 4}, {}}, Case{{.rows = 2, .cols = 2}, {}},
                                         Case{{.rows = 2, .cols = 2}, {UlyssesForm::separate, true}},
                                         Case{{.ring = 2, .ulysses = 2}, {}},
                                         Case{{.rows = 1, .cols = 3, .ulysses = 2}, {UlyssesForm::separate, true}}),
                         [](const auto& info) {
                           std::string name = words_of(info.param.shape, info.param.forms);
                           std::erase_if(name, [](char ch) { return !std::isalnum(static_cast<unsigned char>(ch)); });
                           return name;
                         });

TEST_P(Late, GivesTheSameBits200Times) {
  const auto& [shape, forms] = GetParam();
  const Problem p{45, 6, 3, 16};
  std::atomic<unsigned> seed = 1;
  std::atomic<int> differ = 0;
  const auto body = [&, &shape = shape, &forms = forms](Ctx& c, Comm& world) {
    const Mesh mesh(world, shape, p.mesh_heads());
    const auto prompt = make_attention(c, mesh, forms),
               late = make_attention(c, mesh, forms, std::make_unique<LateDense>(seed++));
    Shard source(c, p, shape.sequence(), mesh.sequence_index());
    prompt->reserve(source.geo), late->reserve(source.geo);
    const Result first = [&] {
      Result all = empty_result(p);
      place(prompt->run(c, source), source.geo, all);
      return all;
    }();
    Delay delay(seed++);
    source.before = [&](Ctx&) { delay(); };
    for (int repeat = 0; repeat < 200;
         ++repeat) {  // without a pause between them: one repeat may catch up with another
      const Scope scope(c.scratch());
      Result all = empty_result(p);
      place(late->run(c, source), source.geo, all);
      differ += std::memcmp(all.o.data(), first.o.data(), all.o.size() * sizeof(float)) != 0 ||
                std::memcmp(all.lse.data(), first.lse.data(), all.lse.size() * sizeof(float)) != 0;
    }
  };
  Ranks(shape.world()).run(body, [&] { return std::make_unique<LateStream>(seed++); });
  EXPECT_EQ(differ, 0);
}

}  // namespace
}  // namespace zoetrope::attn
