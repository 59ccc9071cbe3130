// Filters of lists, dicts and strings as sequences: length, first, sort, unique, ...

#include <algorithm>

#include "jinja/filters.h"
#include "jinja/operators.h"

namespace verlcpp::jinja {
namespace {

Value length_of(const Value& value, Parameters& p) {
  p.finish();
  return static_cast<int64_t>(length(value));
}

Value list(const Value& value, Parameters& p) {
  p.finish();
  return make_list(iterate(value));
}

Value first(const Value& value, Parameters& p) {
  p.finish();
  if (List* list = value.list(); list != nullptr && !list->sized()) {
    if (list->taken < list->items.size()) return list->items[list->taken++];
    if (list->failure) throw *list->failure;
    return undefined("No first item, sequence was empty.");
  }
  const std::vector<Value> items = iterate(value);
  return items.empty() ? undefined("No first item, sequence was empty.") : items.front();
}

/// EvalError for what Python's reversed() does not take.
void expect_reversible(const Value& value, const Parameters& p) {
  const List* list = value.list();
  if (list != nullptr && !list->sized()) p.fail("cannot go backwards over a generator");
}

Value last(const Value& value, Parameters& p) {
  p.finish();
  expect_reversible(value, p);
  const std::vector<Value> items = iterate(value);
  if (items.empty()) return undefined("No last item, sequence was empty.");
  // Python goes through escaped text from its end by indexing, which keeps it escaped.
  return value.is_markup() ? Value(Markup{*items.back().text()}) : items.back();
}

Value reverse(const Value& value, Parameters& p) {
  p.finish();
  if (value.text() != nullptr) return get_slice(value, None{}, None{}, -1);
  std::vector<Value> items = iterate(value);
  const List* list = value.list();
  std::reverse(items.begin(), items.end());
  // Python has no reversed() of a generator, so Jinja makes a list of it.
  if (list != nullptr && !list->sized()) return make_list(std::move(items));
  return make_generator(std::move(items), "list_reverseiterator");
}

Value items(const Value& value, Parameters& p) {
  p.finish();
  std::vector<Value> pairs;
  if (!value.is_undefined()) {
    if (value.dict() == nullptr) throw EvalError("Can only get item pairs from a mapping.");
    for (const auto& [key, item] : value.dict()->items) pairs.push_back(make_tuple({key, item}));
  }
  return make_generator(std::move(pairs));
}

/// Stable; the keys beside the items.
std::vector<Value> sorted(std::vector<std::pair<Value, Value>> keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [reverse](const auto& a, const auto& b) {
    return reverse ? compare(b.first, a.first, "<") < 0 : compare(a.first, b.first, "<") < 0;
  });
  std::vector<Value> out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return out;
}

Value dictsort(const Value& value, Parameters& p) {
  const bool case_sensitive = p.take_flag("case_sensitive", false);
  const std::string by = p.take_text("by", "key");
  const bool reverse = p.take_flag("reverse", false);
  p.finish();
  if (by != "key" && by != "value") p.fail("sorts by 'key' or 'value', not '" + by + "'");
  expect_defined(value);
  if (value.dict() == nullptr) p.fail("sorts a dict, not " + type_name(value));
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, item] : value.dict()->items) {
    const Value& chosen = by == "key" ? key : item;
    keyed.emplace_back(case_sensitive ? chosen : without_case(chosen), make_tuple({key, item}));
  }
  return make_list(sorted(std::move(keyed), reverse));
}

Value sort(const Value& value, Parameters& p) {
  const bool reverse = p.take_flag("reverse", false);
  const bool case_sensitive = p.take_flag("case_sensitive", false);
  const Value attribute = p.take("attribute", None{});
  p.finish();
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : iterate(value)) {
    std::vector<Value> key;
    const auto add = [&](const Value& path) {
      const Value part = attribute_of(item, path);
      key.push_back(case_sensitive ? part : without_case(part));
    };
    if (attribute.text() == nullptr) {
      add(attribute);
    } else {
      const std::string& paths = *attribute.text();
      for (size_t at = 0; at <= paths.size();) {
        const size_t end = std::min(paths.find(',', at), paths.size());
        add(paths.substr(at, end - at));
        at = end + 1;
      }
    }
    keyed.emplace_back(make_list(std::move(key)), item);
  }
  return make_list(sorted(std::move(keyed), reverse));
}

Value unique(const Value& value, Parameters& p) {
  const bool case_sensitive = p.take_flag("case_sensitive", false);
  const Value attribute = p.take("attribute", None{});
  p.finish();
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : iterate(value)) {
    const Value part = attribute_of(item, attribute);
    const Value key = case_sensitive ? part : without_case(part);
    expect_hashable(key);
    if (seen.find(key) != nullptr) continue;
    seen.set(key, true);
    out.push_back(item);
  }
  return make_generator(std::move(out));
}

template <bool largest>
Value extreme(const Value& value, Parameters& p) {
  const bool case_sensitive = p.take_flag("case_sensitive", false);
  const Value attribute = p.take("attribute", None{});
  p.finish();
  Value best = undefined("No aggregated item, sequence was empty."), best_key;
  bool first = true;
  for (const Value& item : iterate(value)) {
    const Value part = attribute_of(item, attribute);
    const Value key = case_sensitive ? part : without_case(part);
    const bool better =
        first || (largest ? compare(key, best_key, ">") > 0 : compare(key, best_key, "<") < 0);
    first = false;
    if (!better) continue;
    best = item;
    best_key = key;
  }
  return best;
}

Value batch(const Value& value, Parameters& p) {
  const int64_t size = p.take_integer("linecount", 1);
  const Value fill = p.take("fill_with", None{});
  p.finish();
  std::vector<Value> out, row;
  for (const Value& item : iterate(value)) {
    if (static_cast<int64_t>(row.size()) == size) {
      out.push_back(make_list(std::move(row)));
      row.clear();
    }
    row.push_back(item);
  }
  if (!row.empty()) {
    while (!fill.is_none() && static_cast<int64_t>(row.size()) < size) {
      expect_item_count(row.size());
      row.push_back(fill);
    }
    out.push_back(make_list(std::move(row)));
  }
  return make_generator(std::move(out));
}

}  // namespace

void add_list_filters(FilterTable& table) {
  table["length"] = table["count"] = length_of;
  table["list"] = list;
  table["first"] = first;
  table["last"] = last;
  table["reverse"] = reverse;
  table["items"] = items;
  table["dictsort"] = dictsort;
  table["sort"] = sort;
  table["unique"] = unique;
  table["min"] = extreme<false>;
  table["max"] = extreme<true>;
  table["batch"] = batch;
}

}  // namespace verlcpp::jinja
