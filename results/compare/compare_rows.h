// Columns of /cells by name, for the files of `sweep compare`.
#pragma once

#include <string>

#include "results/cell.h"
#include "results/compare/compare.h"
#include "results/row.h"

namespace thinwire::results {

/// Throws UsageError naming the nearest column; `where` says who asked.
const ColumnOf<CellRow>& cell_column(const std::string& name, const std::string& where);
/// A value as a table shows it.
std::string text_of(const CellRow& row, const ColumnOf<CellRow>& column);

/// What as_text and as_html show of a compared cell: one text per column of `compared_header`.
const std::vector<std::string>& compared_header();
std::vector<std::string> compared_row(const ComparedCell& cell, Metric metric);
/// The sentences above the table: files, counts by verdict.
std::vector<std::string> compared_summary(const Comparison& comparison);
/// Program, link, cells, common change, spread between runs, where that is from.
std::vector<std::string> group_header();
std::vector<std::string> group_row(const CompareGroup& group);
/// Cells that deserve a look first: worse, then better, then the rest; within each by the size of the change.
std::vector<const ComparedCell*> in_order_of_interest(const Comparison& comparison);

}  // namespace thinwire::results
