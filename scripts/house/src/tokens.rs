//! Paths in tokens that nothing parses: bodies of macros, and attributes.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

use crate::found::{Mention, Path};

/// Adds the paths in `tokens`: all that have two segments or more, and single names that look like
/// a type, a call or a macro.
pub(crate) fn scan(tokens: TokenStream, mentions: &mut Vec<Mention>) {
    scan_after(&[], tokens, mentions);
}

/// Paths in a group that follows `prefix::` have that before them, as in `use a::{b, c}`.
fn scan_after(prefix: &[String], tokens: TokenStream, mentions: &mut Vec<Mention>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let begin = at;
        at += 1;
        match token {
            TokenTree::Group(group) => scan_after(&[], group.stream(), mentions),
            TokenTree::Ident(first) => {
                let mut path: Path = if follows_as(&tokens, begin) { Path::new() } else { prefix.to_vec() };
                path.push(text(first));
                let mut is_group = false;
                while is_colons(&tokens, at) {
                    match tokens.get(at + 2) {
                        Some(TokenTree::Ident(next)) => path.push(text(next)),
                        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                            scan_after(&path, group.stream(), mentions);
                            is_group = true;
                        }
                        _ => break,
                    }
                    at += 3;
                }
                if is_group || first == "as" || !may_begin(&tokens, begin) {
                    continue;
                }
                if path.len() > 1 {
                    path.pop_if(|last| last == "self");
                }
                let calls = is_punctuation(&tokens, at, '!') && !is_punctuation(&tokens, at + 1, '=');
                if path.len() > 1 || calls || looks_named(&tokens, begin, at, first) {
                    mentions.push(Mention { path, line: first.span().start().line, calls });
                }
            }
            _ => {}
        }
    }
}

/// False for a field, a method, a lifetime, a macro's parameter, and what follows `::`.
fn may_begin(tokens: &[TokenTree], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else {
        return true;
    };
    let TokenTree::Punct(punctuation) = &tokens[before] else {
        return true;
    };
    match punctuation.as_char() {
        '\'' => false,
        '$' => matches!(&tokens[at], TokenTree::Ident(name) if name == "crate"),
        '.' => before > 0 && is_punctuation(tokens, before - 1, '.'),
        ':' => !(before > 0 && is_colons(tokens, before - 1)),
        _ => true,
    }
}

/// True for the new name in `use a::{b as c}`, which is not in `a`.
fn follows_as(tokens: &[TokenTree], at: usize) -> bool {
    at > 0 && matches!(&tokens[at - 1], TokenTree::Ident(word) if word == "as")
}

fn looks_named(tokens: &[TokenTree], begin: usize, end: usize, name: &Ident) -> bool {
    let is_declared = begin > 0 && matches!(&tokens[begin - 1], TokenTree::Ident(word) if word == "fn");
    let is_called =
        matches!(tokens.get(end), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
    !is_declared && (is_called || text(name).starts_with(char::is_uppercase))
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    is_punctuation(tokens, at, ':') && is_punctuation(tokens, at + 1, ':')
}

fn is_punctuation(tokens: &[TokenTree], at: usize, wanted: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punctuation)) if punctuation.as_char() == wanted)
}

/// A raw name without its `r#`.
pub(crate) fn text(name: &Ident) -> String {
    let name = name.to_string();
    name.strip_prefix("r#").map_or_else(|| name.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        let mut mentions = Vec::new();
        scan(code.parse().unwrap(), &mut mentions);
        mentions.iter().map(|mention| mention.path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_in_groups_too() {
        assert_eq!(paths("let x = f(crate::a::B, $crate::c!());"), ["f", "crate::a::B", "crate::c"]);
        assert_eq!(paths("use super::a::{b, c::{D, e as f}};"), ["super::a::b", "super::a::c::D", "super::a::c::e"]);
    }

    #[test]
    fn the_type_of_a_cast_is_a_path() {
        assert_eq!(paths("x as crate::a::B"), ["crate::a::B"]);
    }

    #[test]
    fn what_is_no_path_of_its_own_is_passed_over() {
        assert_eq!(paths("self.crate_name.f() + ::std::mem::take(x) + $name::g() + <T>::h()"), ["T"]);
        assert_eq!(paths("fn f() -> bool { a != b }"), [""; 0]);
        assert_eq!(paths("for x in 0..limit() { r#type::make::<u8>() }"), ["limit", "type::make"]);
    }
}
