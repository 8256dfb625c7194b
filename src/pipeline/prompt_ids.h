// From the words of a request to token ids: all that needs a tokenizer, and apart so that a run from ids needs none.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/request.h"
#include "io/tokenizer.h"
#include "models/source.h"
#include "models/wan/config.h"

namespace zoetrope {

// Token ids of a request, end token included.
struct PromptIds {
  std::vector<int32_t> positive, negative;
  std::vector<std::string> warnings = {};  // of prompts that are longer than what the model reads
};

std::unique_ptr<Tokenizer> open_tokenizer(const ModelSource& source);  // its own, or the toys' for random weights

// Cleans and encodes both prompts; `rows` is the most a prompt may have.
PromptIds encode_prompts(const Tokenizer& tokenizer, const Request& request, int rows = WanConfig::text_rows);

}  // namespace zoetrope
