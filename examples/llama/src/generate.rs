//! Goes on with prompts, always with the likeliest token.

use crate::device::Error;
use crate::model::Model;
use std::io::Write;

/// The tokens that follow each prompt, `steps` of them, and what was written of their probabilities to `dump`: after the
/// prompts a row for each, then as many for each further step.
pub fn generate(
    model: &mut Model,
    prompts: &[Vec<i32>],
    steps: usize,
    mut dump: Option<&mut dyn Write>,
) -> Result<Vec<Vec<i32>>, Error> {
    check(model, prompts, steps)?;
    let mut found: Vec<Vec<i32>> = vec![];
    for (slot, prompt) in prompts.iter().enumerate() {
        model.prompt(slot, prompt)?;
        found.push(model.tokens(1)?);
        write(&mut dump, &model.probabilities(1)?)?;
    }
    for step in 0..steps.saturating_sub(1) {
        let tokens: Vec<i32> = found.iter().map(|f| f[step]).collect();
        let positions: Vec<i32> = prompts.iter().map(|p| (p.len() + step) as i32).collect();
        let longest = positions.iter().copied().max().unwrap_or(0) as usize + 1;
        model.place(&tokens, &positions)?;
        model.run_step(prompts.len(), span(model, longest))?;
        for (list, token) in found.iter_mut().zip(model.tokens(prompts.len())?) {
            list.push(token);
        }
        write(&mut dump, &model.probabilities(prompts.len())?)?;
    }
    Ok(found)
}

/// The positions to look at for sequences of up to `longest`: the least that kernels were tuned for.
fn span(model: &Model, longest: usize) -> usize {
    let tuned = model.config.span.iter().map(|s| *s as usize);
    tuned.filter(|s| *s >= longest).min().unwrap_or(model.config.capacity)
}

fn check(model: &Model, prompts: &[Vec<i32>], steps: usize) -> Result<(), Error> {
    let c = &model.config;
    let most = c.prompt.iter().copied().max().unwrap_or(1) as usize;
    if prompts.len() > c.slots {
        return Err(format!("{} prompts, there is room for {}", prompts.len(), c.slots).into());
    }
    for prompt in prompts {
        if prompt.is_empty() || prompt.len() > most {
            return Err(format!("a prompt has {} tokens, expected 1 to {most}", prompt.len()).into());
        }
        if prompt.len() + steps > c.capacity {
            return Err(format!("{} tokens and {steps} more; there is room for {}", prompt.len(), c.capacity).into());
        }
        if let Some(bad) = prompt.iter().find(|t| **t < 0 || **t as usize >= c.vocab) {
            return Err(format!("token {bad} is none of 0 to {}", c.vocab - 1).into());
        }
    }
    Ok(())
}

fn write(dump: &mut Option<&mut dyn Write>, data: &[u8]) -> Result<(), Error> {
    if let Some(to) = dump {
        to.write_all(data)?;
    }
    Ok(())
}
