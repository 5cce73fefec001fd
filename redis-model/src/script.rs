//! Scripts, in Lua 5.1, which is that of Redis and Valkey.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value as LuaValue, Variadic};
use redis::Value;

use crate::keyspace::{Call, Keyspace};
use crate::{Answer, Refusal, commands};

/// A script's source.
pub type Source = Arc<str>;

/// What a running script works on. The commands that it calls find it here.
#[derive(Default)]
struct Running {
    keys: Keyspace,
    call: Call,
    /// The error that a command raised. Lua passes on only its text.
    refusal: Option<Refusal>,
}

/// An interpreter, with the scripts that it has compiled.
struct Interpreter {
    lua: Lua,
    running: Rc<RefCell<Running>>,
    compiled: HashMap<Source, Function>,
}

thread_local! {
    /// One for all stores of a thread: a script keeps nothing between two calls. None until the first.
    static INTERPRETER: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
}

/// Runs a script over `keys`, as EVAL does.
pub fn run(keys: &mut Keyspace, now_us: u64, source: &Source, names: &[&[u8]], arguments: &[&[u8]]) -> Answer {
    let flags = source.lines().next().filter(|line| line.starts_with("#!")).unwrap_or_default();
    let is_read_only = flags.contains("no-writes");
    let may_grow = flags.contains("allow-oom") || is_read_only;
    // A script that says nothing of memory may start, and the first command that needs some is refused.
    if keys.is_full && !flags.is_empty() && !may_grow {
        return Err(Refusal::new("OOM", "command not allowed when used memory > 'maxmemory'."));
    }
    INTERPRETER.with_borrow_mut(|interpreter| {
        let call = Call { now_us, may_grow, is_read_only };
        let running = Running { keys: mem::take(keys), call, refusal: None };
        let (result, Running { keys: after, refusal, .. }) = match interpreter {
            Some(interpreter) => interpreter.run(running, source, names, arguments),
            none => match Interpreter::new() {
                Ok(new) => none.insert(new).run(running, source, names, arguments),
                Err(error) => (Err(error), running),
            },
        };
        *keys = after;
        result.unwrap_or_else(|error| Err(refusal.unwrap_or_else(|| Refusal::err(error.to_string()))))
    })
}

impl Interpreter {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::default())?;
        let running = Rc::new(RefCell::new(Running::default()));
        let api = lua.create_table()?;
        let (raising, catching) = (Rc::clone(&running), Rc::clone(&running));
        api.set("call", lua.create_function(move |lua, arguments| call(lua, &raising, &arguments))?)?;
        api.set("pcall", lua.create_function(move |lua, arguments| pcall(lua, &catching, &arguments))?)?;
        lua.globals().set("redis", api)?;
        Ok(Self { lua, running, compiled: HashMap::new() })
    }

    /// Runs a script, and gives back what it worked on.
    fn run(
        &mut self,
        running: Running,
        source: &Source,
        names: &[&[u8]],
        arguments: &[&[u8]],
    ) -> (mlua::Result<Answer>, Running) {
        *self.running.borrow_mut() = running;
        let result = self.evaluate(source, names, arguments);
        (result, mem::take(&mut *self.running.borrow_mut()))
    }

    fn evaluate(&mut self, source: &Source, names: &[&[u8]], arguments: &[&[u8]]) -> mlua::Result<Answer> {
        let function = if let Some(function) = self.compiled.get(source) {
            function.clone()
        } else {
            let function = self.lua.load(without_flags(source)).into_function()?;
            self.compiled.insert(Arc::clone(source), function.clone());
            function
        };
        let list = |texts: &[&[u8]]| {
            self.lua.create_sequence_from(
                texts.iter().map(|text| self.lua.create_string(text)).collect::<mlua::Result<Vec<_>>>()?,
            )
        };
        self.lua.globals().set("KEYS", list(names)?)?;
        self.lua.globals().set("ARGV", list(arguments)?)?;
        let answers: MultiValue = function.call(())?;
        from_lua(&answers.into_iter().next().unwrap_or(LuaValue::Nil))
    }
}

/// The source, with its line of flags empty, so that errors name the same lines.
fn without_flags(source: &str) -> &str {
    if source.starts_with("#!") { source.find('\n').map_or("", |end| &source[end..]) } else { source }
}

/// `redis.call`: an error ends the script.
fn call(lua: &Lua, running: &RefCell<Running>, arguments: &Variadic<LuaValue>) -> mlua::Result<LuaValue> {
    match run_command(running, arguments) {
        Ok(value) => to_lua(lua, value),
        Err(refusal) => {
            let error = mlua::Error::runtime(format!("{} {}", refusal.code, refusal.detail));
            running.borrow_mut().refusal = Some(refusal);
            Err(error)
        }
    }
}

/// `redis.pcall`: an error is a table with the field `err`.
fn pcall(lua: &Lua, running: &RefCell<Running>, arguments: &Variadic<LuaValue>) -> mlua::Result<LuaValue> {
    match run_command(running, arguments) {
        Ok(value) => to_lua(lua, value),
        Err(refusal) => {
            let table = lua.create_table()?;
            table.set("err", format!("{} {}", refusal.code, refusal.detail))?;
            Ok(LuaValue::Table(table))
        }
    }
}

fn run_command(running: &RefCell<Running>, arguments: &Variadic<LuaValue>) -> Answer {
    let texts = arguments.iter().map(argument).collect::<Result<Vec<_>, Refusal>>()?;
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let running = &mut *running.borrow_mut();
    let answer = commands::run(&mut running.keys, running.call, &texts);
    if answer.is_ok() && texts.first().is_some_and(|name| commands::is_write(name)) {
        // Scripts do not roll back. Once one has written, Redis lets it finish.
        running.call.may_grow = true;
    }
    answer
}

/// An argument of a command: a string, or a number.
fn argument(value: &LuaValue) -> Result<Vec<u8>, Refusal> {
    match value {
        LuaValue::String(text) => Ok(text.as_bytes().to_vec()),
        LuaValue::Integer(number) => Ok(number.to_string().into_bytes()),
        LuaValue::Number(number) => Ok(commands::number_text(*number).into_bytes()),
        _ => Err(Refusal::err("Lua redis lib command arguments must be strings or integers")),
    }
}

/// A command's answer as a script sees it.
fn to_lua(lua: &Lua, value: Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Nil => LuaValue::Boolean(false),
        #[expect(clippy::cast_precision_loss, reason = "a number of Lua 5.1 is a float")]
        Value::Int(number) => LuaValue::Number(number as f64),
        Value::BulkString(bytes) => LuaValue::String(lua.create_string(bytes)?),
        Value::Array(values) => {
            let values = values.into_iter().map(|value| to_lua(lua, value)).collect::<mlua::Result<Vec<_>>>()?;
            LuaValue::Table(lua.create_sequence_from(values)?)
        }
        Value::Okay => LuaValue::Table(status(lua, "OK")?),
        Value::SimpleString(text) => LuaValue::Table(status(lua, &text)?),
        other => return Err(mlua::Error::runtime(format!("no command answers {other:?}"))),
    })
}

fn status(lua: &Lua, text: &str) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("ok", text)?;
    Ok(table)
}

/// A script's answer as its caller sees it. A number loses its fraction, and a list ends at its first nil.
#[expect(clippy::cast_possible_truncation, reason = "so does Redis")]
fn from_lua(value: &LuaValue) -> mlua::Result<Answer> {
    Ok(Ok(match value {
        LuaValue::Nil | LuaValue::Boolean(false) => Value::Nil,
        LuaValue::Boolean(true) => Value::Int(1),
        LuaValue::Integer(number) => Value::Int(*number),
        LuaValue::Number(number) => Value::Int(*number as i64),
        LuaValue::String(text) => Value::BulkString(text.as_bytes().to_vec()),
        LuaValue::Table(table) => return from_table(table),
        other => return Err(mlua::Error::runtime(format!("a script answers {}", other.type_name()))),
    }))
}

fn from_table(table: &Table) -> mlua::Result<Answer> {
    if let Some(text) = table.raw_get::<Option<String>>("err")? {
        return Ok(Err(Refusal::read(&text)));
    }
    if let Some(text) = table.raw_get::<Option<String>>("ok")? {
        return Ok(Ok(if text == "OK" { Value::Okay } else { Value::SimpleString(text) }));
    }
    let mut values = Vec::new();
    for place in 1.. {
        let value: LuaValue = table.raw_get(place)?;
        if value == LuaValue::Nil {
            break;
        }
        match from_lua(&value)? {
            Ok(value) => values.push(value),
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
    Ok(Ok(Value::Array(values)))
}
