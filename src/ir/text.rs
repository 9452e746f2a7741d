//! The grammar of a step's line of text: `name(argument, ...)`. An argument alone may be the extent of a plan.

use super::BinOp;

/// An argument as written.
#[allow(missing_docs)] // the names say it
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    Word(String),
    Int(i64),
    Float(f64),
    Str(String),
    List(Vec<Arg>),
    Dict(Vec<(String, Arg)>),
    Call(String, Vec<Arg>),
    Binary(BinOp, Box<Arg>, Box<Arg>),
}

/// The name and the arguments of a step, or why `text` is not `name(arguments)`.
pub fn call(text: &str) -> Result<(String, Vec<Arg>), String> {
    match arg(text) {
        Ok(Arg::Call(name, args)) => Ok((name, args)),
        Ok(_) => Err(format!("cannot read step \"{text}\": expected name(arguments)")),
        Err(why) => Err(format!("cannot read step \"{text}\" {why}")),
    }
}

/// One argument, or at which column it is none and why.
pub fn arg(text: &str) -> Result<Arg, String> {
    let mut cursor = Cursor { text, at: 0, operators: 0 };
    let read = cursor.nested(0).and_then(|a| cursor.end().map(|()| a));
    read.map_err(|why| format!("at column {}: {why}", cursor.at + 1))
}

/// How deep lists and dictionaries may nest in the text of a step.
const MAX_DEPTH: usize = 64;

/// How many operators the text of a step may hold.
const MAX_OPERATORS: usize = 256;

/// A place in the text; `at` counts bytes.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Operators read so far.
    operators: usize,
}

impl Cursor<'_> {
    /// An operand, or a sum of products of them.
    fn nested(&mut self, depth: usize) -> Result<Arg, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        let operators = [("+", BinOp::Add), ("-", BinOp::Sub)];
        self.operands(&operators, |c| c.product(depth))
    }

    fn product(&mut self, depth: usize) -> Result<Arg, String> {
        let operators = [("*", BinOp::Mul), ("//", BinOp::FloorDiv), ("%", BinOp::FloorMod)];
        self.operands(&operators, |c| c.operand(depth))
    }

    /// Operands with operators of one rank between them, which associate to the left.
    fn operands(
        &mut self,
        operators: &[(&str, BinOp)],
        mut operand: impl FnMut(&mut Self) -> Result<Arg, String>,
    ) -> Result<Arg, String> {
        let mut all = operand(self)?;
        loop {
            self.peek();
            let rest = &self.text[self.at..];
            let Some((sign, op)) = operators.iter().find(|(sign, _)| rest.starts_with(sign)) else { return Ok(all) };
            self.operators += 1;
            if self.operators > MAX_OPERATORS {
                return Err(format!("more than {MAX_OPERATORS} operators"));
            }
            self.at += sign.len();
            all = Arg::Binary(*op, Box::new(all), Box::new(operand(self)?));
        }
    }

    fn operand(&mut self, depth: usize) -> Result<Arg, String> {
        match self.peek() {
            Some('(') => {
                self.expect('(')?;
                let inner = self.nested(depth + 1)?;
                self.expect(')').map(|()| inner)
            }
            Some('[') => self.items('[', ']', |c| c.nested(depth + 1)).map(Arg::List),
            Some('{') => self.items('{', '}', |c| c.pair(depth + 1)).map(Arg::Dict),
            Some('"') => self.string().map(Arg::Str),
            Some(c) if c.is_ascii_digit() || c == '-' => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => {
                let word = self.take(|c| c.is_alphanumeric() || c == '_' || c == '.');
                match self.peek() {
                    Some('(') => Ok(Arg::Call(word, self.items('(', ')', |c| c.nested(depth + 1))?)),
                    _ => Ok(Arg::Word(word)),
                }
            }
            Some(c) => Err(format!("unexpected {c:?}")),
            None => Err("unexpected end".to_string()),
        }
    }

    fn pair(&mut self, depth: usize) -> Result<(String, Arg), String> {
        self.peek();
        let key = self.string()?;
        self.expect(':')?;
        Ok((key, self.nested(depth)?))
    }

    /// `open item, item, ... close`
    fn items<T>(
        &mut self,
        open: char,
        close: char,
        mut item: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.expect(open)?;
        let mut items = vec![];
        while self.peek() != Some(close) {
            if !items.is_empty() {
                self.expect(',')?;
            }
            items.push(item(self)?);
        }
        self.expect(close)?;
        Ok(items)
    }

    fn number(&mut self) -> Result<Arg, String> {
        let mut before = 'e';
        let text = self.take(|c| {
            let sign = matches!(c, '-' | '+') && matches!(before, 'e' | 'E');
            before = c;
            sign || c.is_ascii_alphanumeric() || c == '.'
        });
        if let Ok(n) = text.parse::<i64>() {
            return Ok(Arg::Int(n));
        }
        text.parse::<f64>().map(Arg::Float).map_err(|_| format!("{text} is not a number"))
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect('"')?;
        let mut out = String::new();
        loop {
            match self.next() {
                Some('"') => return Ok(out),
                Some('\\') => match self.next() {
                    Some('n') => out.push('\n'),
                    Some(c) => out.push(c),
                    None => return Err("the string does not end".to_string()),
                },
                Some(c) => out.push(c),
                None => return Err("the string does not end".to_string()),
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.text[self.at..].chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// The next character that is not a space, left in place.
    fn peek(&mut self) -> Option<char> {
        self.take(char::is_whitespace);
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, mut keep: impl FnMut(char) -> bool) -> String {
        let rest = &self.text[self.at..];
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        rest[..len].to_string()
    }

    fn expect(&mut self, want: char) -> Result<(), String> {
        match self.peek() {
            Some(c) if c == want => {
                self.at += c.len_utf8();
                Ok(())
            }
            Some(c) => Err(format!("expected {want:?}, found {c:?}")),
            None => Err(format!("expected {want:?}, found the end")),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(c) => Err(format!("unexpected {c:?} after the step")),
        }
    }
}
