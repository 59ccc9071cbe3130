#pragma once

#include <string>

#include "data/tokenizer/decoder.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/special_tokens.h"

namespace verlcpp::data {

/// The parts of tokenizer.json before and after the model. `json` is the part's text ("null" for
/// none), `where` the file. DataError, naming the kind, for one that is not built.
Normalizer parse_normalizer(const std::string& json, const std::string& where);
PreTokenizer parse_pre_tokenizer(const std::string& json, const std::string& where);
Decoder parse_decoder(const std::string& json, const std::string& where);
SpecialTokens parse_post_processor(const std::string& json, const std::string& where);

}  // namespace verlcpp::data
