#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace verlcpp::model {

/// A JSON object whose values are asked for by key, type and range. What does not hold is a
/// DataError that names file, key, value and what is valid. A key that is absent and one that is
/// null are alike, as for Hugging Face.
class Fields {
 public:
  using Json = nlohmann::json;

  /// `where`: the file, and the object in it. `asked`, if any, takes every key that is asked for.
  Fields(Json object, std::string where, std::set<std::string>* asked = nullptr)
      : object_(std::move(object)), where_(std::move(where)), asked_(asked) {}
  /// The object at `key`, whose keys are asked for as "key.name".
  Fields object(const std::string& key) const;

  [[noreturn]] void fail(const std::string& key, const std::string& valid) const;

  /// Null where the key is absent or null.
  const Json* find(const std::string& key) const;
  bool contains(const std::string& key) const;

  int64_t positive(const std::string& key, std::optional<int64_t> absent = {}) const;
  int64_t positive_up_to(int64_t max, const std::string& valid, const std::string& key,
                         std::optional<int64_t> absent = {}) const;
  /// Without `absent` the key must be there.
  double positive_number(const std::string& key, std::optional<double> absent = {}) const;
  bool boolean(const std::string& key, bool absent) const;
  /// Refuses any value but `valid`; absent is fine.
  void only(const std::string& key, const Json& valid, const std::string& why = "") const;
  /// One token id, or a list of them; empty when absent.
  std::vector<int32_t> token_ids(const std::string& key, int64_t vocab) const;

  const std::string& where() const { return where_; }

 private:
  void note(const std::string& key) const;

  Json object_;
  std::string where_;
  std::set<std::string>* asked_;
  std::string prefix_;  // of what is noted
};

/// Of a file's text. DataError when it is no JSON object. `asked`: as for Fields.
Fields parse_fields(const std::string& text, const std::string& where,
                    std::set<std::string>* asked = nullptr);

}  // namespace verlcpp::model
