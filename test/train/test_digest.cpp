#include "support/catch.h"
#include "train/digest.h"

using namespace verlcpp::train;

TEST_CASE("sha256 of the empty and the classic message") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a model's digest follows what its config says, not how it is written") {
  const std::string config = R"({"hidden_size": 64, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
    "torch_dtype": "float32", "eos_token_id": [1, 2]})";
  const std::string same = R"({"_name_or_path":"export","eos_token_id":[1,2],"dtype":"bfloat16",
    "rope_theta":1e4,"rms_norm_eps":0.000001,"hidden_size":64,"transformers_version":"5.0"})";
  CHECK(model_digest(config) == model_digest(same));
  const std::string other = R"({"hidden_size": 64, "rope_theta": 10000.5, "rms_norm_eps": 1e-6,
    "eos_token_id": [1, 2]})";
  CHECK(model_digest(config) != model_digest(other));
  const std::string order = R"({"hidden_size": 64, "rope_theta": 10000, "rms_norm_eps": 1e-6,
    "eos_token_id": [2, 1]})";
  CHECK(model_digest(config) != model_digest(order));
  CHECK(model_digest("{") == sha256("{"));
}
