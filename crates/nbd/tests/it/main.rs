//! Servers from outside: by a small client of their own, and by the tools of others where they are installed.

mod client;
mod content;
mod hostile;
mod times;
mod tools;
