#include "models/wan/exchange.h"

#include <utility>

#include "attn/dense.h"

namespace zoetrope {

WanExchange::WanExchange(Ctx& c, const Mesh* on, std::unique_ptr<attn::Attention> strategy)
    : mesh(on), attention(std::move(strategy)), tp(c, on ? &on->tp() : nullptr), velocity(c.exchange()) {
  if (!attention) attention = on ? attn::make_attention(c, *on) : std::make_unique<attn::Dense>();
}

}  // namespace zoetrope
