//! Plans, from the parts that they are made of to their end, and what happens to those whose drives answer with an
//! error, late or never.

mod abandon;
mod dispatch;
mod end;
mod exchanged;
mod failing;
mod hold;
mod make;
mod overdue;
mod run;
mod settle;
