// The one file that includes Arrow.

#include "data/parquet.h"

#include <arrow/api.h>
#include <arrow/extension_type.h>
#include <arrow/util/float16.h>
#include <arrow/util/utf8.h>
#include <arrow/visit_type_inline.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/date_text.h"

namespace verlcpp::data {
namespace {

using Json = nlohmann::ordered_json;
using arrow::Type;

constexpr int64_t kBatchRows = 1024;
constexpr int kMaxDepth = 64;  // as in JSON text (row_file.cpp)

/// A value that has no JSON form; `what` completes "column is ...".
struct NoSuchValue {
  std::string what;
};

template <class Array>
const Array& as(const arrow::Array& array) {
  return static_cast<const Array&>(array);
}

Json text(std::string_view bytes) {
  if (!arrow::util::ValidateUTF8(bytes)) throw NoSuchValue{"not UTF-8"};
  return std::string(bytes);
}

/// What date_text.h made of a date or a time stamp.
std::string dated(std::string text) {
  if (text.empty()) throw NoSuchValue{"a date outside of the years 1 to 9999"};
  return text;
}

/// Arrow counts its units from seconds (0) to nanoseconds (3).
int64_t per_second(arrow::TimeUnit::type unit) {
  return std::array{1, 1000, 1000000, 1000000000}.at(static_cast<size_t>(unit));
}

Json value(const arrow::Array& array, int64_t i);

template <class List>
Json list(const arrow::Array& array, int64_t i) {
  const List& lists = as<List>(array);
  Json out = Json::array();
  const int64_t begin = lists.value_offset(i);
  for (int64_t k = 0; k < lists.value_length(i); ++k) {
    out.push_back(value(*lists.values(), begin + k));
  }
  return out;
}

Json map(const arrow::MapArray& maps, int64_t i) {
  Json out = Json::array();
  for (int64_t k = maps.value_offset(i); k < maps.value_offset(i + 1); ++k) {
    out.push_back(Json::array({value(*maps.keys(), k), value(*maps.items(), k)}));
  }
  return out;
}

Json object(const arrow::StructArray& structs, int64_t i) {
  Json out = Json::object();
  for (int f = 0; f < structs.num_fields(); ++f) {
    out[structs.struct_type()->field(f)->name()] = value(*structs.field(f), i);
  }
  return out;
}

Json timestamp(const arrow::TimestampArray& array, int64_t i) {
  const auto& type = static_cast<const arrow::TimestampType&>(*array.type());
  return dated(timestamp_text(array.Value(i), per_second(type.unit()))) +
         (type.timezone().empty() ? "" : "+00:00");
}

template <class Array>
Json clock(const arrow::Array& array, int64_t i) {
  const auto& type = static_cast<const arrow::TimeType&>(*array.type());
  return time_text(as<Array>(array).Value(i), per_second(type.unit()));
}

/// For arrow::VisitTypeInline: element `i` of the array types that come in families.
struct Family {
  const arrow::Array& array;
  int64_t i;
  Json out;

  template <class T>
  arrow::enable_if_t<arrow::is_number_type<T>::value, arrow::Status> Visit(const T&) {
    const auto number = as<typename arrow::TypeTraits<T>::ArrayType>(array).Value(i);
    if constexpr (arrow::is_half_float_type<T>::value) {
      return set(arrow::util::Float16::FromBits(number).ToFloat());
    } else {
      return set(number);
    }
  }
  template <class T>
  arrow::enable_if_has_string_view<T, arrow::Status> Visit(const T&) {
    return done(text(as<typename arrow::TypeTraits<T>::ArrayType>(array).GetView(i)));
  }
  template <class T>
  arrow::enable_if_t<arrow::is_list_type<T>::value || arrow::is_list_view_type<T>::value,
                     arrow::Status>
  Visit(const T&) {
    return done(list<typename arrow::TypeTraits<T>::ArrayType>(array, i));
  }
  arrow::Status Visit(const arrow::DataType& type) {
    throw NoSuchValue{"of type " + type.ToString()};
  }

  template <class N>
  arrow::Status set(N number) {
    return done(std::isfinite(static_cast<double>(number)) ? Json(number) : Json());
  }
  arrow::Status done(Json json) {
    out = std::move(json);
    return arrow::Status::OK();
  }
};

/// Element `i` of `array` as JSON.
Json value(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) return nullptr;
  switch (array.type_id()) {
    case Type::BOOL:
      return as<arrow::BooleanArray>(array).Value(i);
    case Type::DECIMAL32:
    case Type::DECIMAL64:
    case Type::DECIMAL128:
    case Type::DECIMAL256:
      return array.GetScalar(i).ValueOrDie()->ToString();
    case Type::DATE32:
      return dated(date_text(as<arrow::Date32Array>(array).Value(i)));
    case Type::DATE64:
      return dated(timestamp_text(as<arrow::Date64Array>(array).Value(i), 1000)).substr(0, 10);
    case Type::TIME32:
      return clock<arrow::Time32Array>(array, i);
    case Type::TIME64:
      return clock<arrow::Time64Array>(array, i);
    case Type::TIMESTAMP:
      return timestamp(as<arrow::TimestampArray>(array), i);
    case Type::MAP:
      return map(as<arrow::MapArray>(array), i);
    case Type::STRUCT:
      return object(as<arrow::StructArray>(array), i);
    case Type::DICTIONARY: {
      const auto& coded = as<arrow::DictionaryArray>(array);
      return value(*coded.dictionary(), coded.GetValueIndex(i));
    }
    case Type::EXTENSION:
      return value(*as<arrow::ExtensionArray>(array).storage(), i);
    default:
      break;
  }
  Family family{array, i, nullptr};
  expects(arrow::VisitTypeInline(*array.type(), &family).ok(), "a value or an exception");
  return family.out;
}

/// The first type within that value() does not know, with its place; "" when there is none.
std::string unknown_type(const arrow::DataType& type, const std::string& name, int depth) {
  if (depth > kMaxDepth) return name.substr(0, 60) + "... is nested deeper than 64";
  const Type::type id = type.id();
  if (id == Type::EXTENSION) {
    return unknown_type(*static_cast<const arrow::ExtensionType&>(type).storage_type(), name,
                        depth);
  }
  if (id == Type::DICTIONARY) {
    return unknown_type(*static_cast<const arrow::DictionaryType&>(type).value_type(), name, depth);
  }
  if (id == Type::DURATION || arrow::is_interval(id) || arrow::is_union(id) ||
      id == Type::RUN_END_ENCODED) {
    return name + " is of type " + type.ToString() +
           "; valid: text, numbers, booleans, dates and times, lists, maps and structs of them";
  }
  for (const auto& field : type.fields()) {
    const std::string why = unknown_type(*field->type(), name + "." + field->name(), depth + 1);
    if (!why.empty()) return why;
  }
  return "";
}

class ParquetRows {
 public:
  explicit ParquetRows(const std::string& path) : path_(path) {
    auto properties = parquet::default_reader_properties();
    properties.enable_buffered_stream();  // else a row group's compressed columns are held whole
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_batch_size(kBatchRows);
    arrow_properties.set_pre_buffer(false);  // which holds all row groups
    parquet::arrow::FileReaderBuilder builder;
    check(builder.OpenFile(path, false, properties));
    reader_ = take(builder.properties(arrow_properties)->Build());
  }

  /// Leaf columns of the top-level columns wanted.
  void select(const std::vector<std::string>& columns) {
    for (const auto& field : reader_->manifest().schema_fields) {
      const std::string& name = field.field->name();
      if (!columns.empty() && std::ranges::find(columns, name) == columns.end()) continue;
      const std::string why = unknown_type(*field.field->type(), "column " + name, 1);
      if (!why.empty()) fail(why);
      add_leaves(field);
    }
  }

  template <class Visit>
  void visit(const Visit& visit) {
    for (int group = 0; group < reader_->num_row_groups(); ++group) {
      if (leaves_.empty()) {  // nothing to read but the number of rows
        const auto metadata = reader_->parquet_reader()->metadata()->RowGroup(group);
        for (int64_t i = 0; i < metadata->num_rows(); ++i) visit(++row_, Json::object(), "");
        continue;
      }
      const auto batches = take(reader_->GetRecordBatchReader({group}, leaves_));
      while (const auto batch = take(batches->Next())) visit_batch(*batch, visit);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw DataError(path_ + " " + what); }
  void check(const arrow::Status& status) const {
    if (status.ok()) return;
    const std::string message = status.message();
    fail((reader_ == nullptr ? "cannot be read as Parquet: "
                             : "breaks after row " + std::to_string(row_) + ": ") +
         message.substr(0, message.find('\n')));
  }
  template <class T>
  T take(arrow::Result<T> result) const {
    check(result.status());
    return std::move(result).ValueUnsafe();
  }

  void add_leaves(const parquet::arrow::SchemaField& field) {
    if (field.is_leaf()) leaves_.push_back(field.column_index);
    for (const auto& child : field.children) add_leaves(child);
  }

  template <class Visit>
  void visit_batch(const arrow::RecordBatch& batch, const Visit& visit) {
    for (int64_t i = 0; i < batch.num_rows(); ++i) {
      Json row = Json::object();
      std::string problem;
      for (int c = 0; c < batch.num_columns() && problem.empty(); ++c) {
        const std::string& name = batch.column_name(c);
        try {
          row[name] = value(*batch.column(c), i);
        } catch (const NoSuchValue& error) {
          problem = "column " + name + " is " + error.what;
          row = Json::object();
        }
      }
      visit(++row_, row, problem);
    }
  }

  std::string path_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> leaves_;
  int64_t row_ = 0;  // the last one visited, from 1
};

}  // namespace

std::string why_unreadable_parquet(const std::string& path) {
  try {
    ParquetRows rows(path);
  } catch (const DataError& error) {
    return std::string(error.what()).substr(path.size() + 1);
  }
  return "";
}

void for_each_parquet_row(
    const std::string& path, const std::vector<std::string>& columns,
    const std::function<void(int64_t number, const Json& row, const std::string& problem)>& visit) {
  arrow::util::InitializeUTF8();
  ParquetRows rows(path);
  rows.select(columns);
  rows.visit(visit);
}

}  // namespace verlcpp::data
