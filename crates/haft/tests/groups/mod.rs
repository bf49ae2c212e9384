//! Groups of agents: the built program with scripted models.

mod budget;
mod control;
mod examples;
mod killed;
mod life;
mod process;
mod support;
