#pragma once

#include <string>

namespace verlcpp::data {

/// One turn of a conversation, as the chat template renders it.
struct Message {
  std::string role;     // "system", "user", "assistant", "tool", ...
  std::string content;  // text parts end to end where the content is a list of parts
  /// The whole message as JSON, keys in the row's order, where it is more than role and a string as
  /// content (tool calls, parts, reasoning_content, ...); else empty.
  std::string json = {};
};

}  // namespace verlcpp::data
