//! Repeats the fit of the one constant of the model of Linux md to the one published number that it is based on:
//! `cargo run --release -p planner --example fit_md`.

fn main() -> Result<(), lab::schema::document::Refusal> {
    let cycles = planner::predict::fitted::md::fit()?;
    println!("work.stripe_pass_cycles = {cycles}");
    Ok(())
}
