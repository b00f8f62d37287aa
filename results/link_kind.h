// Kinds of links that cells are measured over. A cell's link begins with the name of its kind: "shm", "netns:100mbit", "emulated:1gbit,latency=2ms".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace thinwire::results {

/// One line of the table in link_kind.cpp: what runs, launches and machine profiles ask of a link before anything goes over it.
struct LinkKind {
  std::string_view name;
  std::string_view form;  ///< for messages: "netns:RATE (100mbit, 1gbit, ...)"
  bool named = false;     ///< a colon and more follow the name
  bool one_node = true;   ///< its ranks share a machine, unless a profile says otherwise
  bool in_lab = false;    ///< experiments/lab builds it, and starts the ranks
  bool by_kernel = true;  ///< the kernel moves its bytes; else the ranks do, through memory
};

std::span<const LinkKind> link_kinds();
/// Null for a link of no kind.
const LinkKind* kind_of_link(std::string_view link);
/// The forms of all kinds, for messages.
std::string link_forms();
/// What is wrong with a link before anybody builds it, for a message; empty: nothing that can be told here.
std::string wrong_with_link(const std::string& link);

}  // namespace thinwire::results
