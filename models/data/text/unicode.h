// What BERT's tokenizer asks of Unicode: categories, small letters, canonical decomposition; and texts in UTF-8.
// The version is fixed (unicode_tables.cpp), so a text has the same ids on every machine.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::unicode {

/// The version of Unicode that all of these go by.
std::string_view version_name();

bool is_control(char32_t c);      ///< categories Cc and Cf
bool is_space(char32_t c);        ///< category Zs
bool is_separator(char32_t c);    ///< categories Zl and Zp: of lines and of paragraphs
bool is_punctuation(char32_t c);  ///< categories P*
bool is_mark(char32_t c);         ///< category Mn: accents and their like

/// Small letters, the full mapping with its rule of the final sigma (Unicode, 3.13, toLowercase): what Python's str.lower() gives.
std::u32string lower(std::u32string_view text);

/// Normalization Form D (Unicode Annex 15): canonical decomposition in canonical order.
std::u32string decomposed(std::u32string_view text);

/// The characters of a text in UTF-8; bytes that are none are left out, as Python's decode("utf-8", "ignore") does.
std::u32string from_utf8(std::string_view text);
void append_utf8(std::string& text, char32_t c);
std::string to_utf8(std::u32string_view text);

}  // namespace thinwire::unicode
