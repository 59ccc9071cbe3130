#pragma once

#include <string>

namespace verlcpp::data {

/// One turn of a conversation, as the chat template renders it.
struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

}  // namespace verlcpp::data
