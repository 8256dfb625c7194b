// What a model, a file or a released model's name is, and why we think so; nothing is loaded.
#pragma once
#include "base/json.h"
#include "config/request.h"
#include "models/source.h"

namespace zoetrope {

// {"kind": "model", name, class, what, recipes {original, folder}, parts: [{name, class, what, tensors, parameters,
// stored {dtype: tensors}, files, bytes, problem}], problems}. Of a survey, each thing that is wrong stands once in
// problems; `what` and recipes are there where the model can be judged as a whole.
OrderedJson inspect_model(const ModelSource& source);

// {"kind": "file", path, bytes, tensors, parameters, stored, metadata, looks_like}
OrderedJson inspect_file(const std::filesystem::path& file);

// FLOPs and peak memory of a request, from a dry run with prompts at their longest: "cost" beside what inspect_model
// gave.
OrderedJson inspect_cost(const ModelSource& source, const Request& request, DType dtype, DType vae_dtype);

std::string inspect_as_text(const OrderedJson& facts);

}  // namespace zoetrope
