//! What clients' threads do: they make requests, hand them to the stack, and get its answers.

use super::{Event, Input, Run};
use anyhow::{Context, Result, bail};
use engine::request::Operation;

impl Run {
    /// Lets a thread issue requests until its core is busy or it has no more requests for now.
    pub(super) fn issue(&mut self, thread: u32) -> Result<()> {
        let now_ns = self.queue.now_ns();
        let takes_ns = self.host.client_request_ns;
        while self.is_loaded && self.clients.begin(thread, now_ns) {
            self.audit.issue(now_ns);
            self.under_way += 1;
            self.books.client_ns += takes_ns;
            if takes_ns > 0 {
                let from_ns = self.thread_is_free_at_ns(thread);
                self.queue.at(from_ns + takes_ns, Event::Made(thread));
                self.occupy_thread(thread, from_ns + takes_ns);
                return Ok(());
            }
            self.hand_over(thread)?;
        }
        if self.is_loaded
            && let Some(at_ns) = self.clients.sleep(thread, now_ns)
        {
            self.queue.at(at_ns, Event::Wake(thread));
        }
        Ok(())
    }

    /// When a thread's core can work for the client. If the stack works on the same core, its present turn ends
    /// first.
    fn thread_is_free_at_ns(&self, thread: u32) -> u64 {
        let now_ns = self.queue.now_ns();
        if self.stack.is_on_clients_cores() {
            return now_ns.max(self.cores[thread as usize].free_at_ns);
        }
        now_ns
    }

    /// Occupies a thread's core until then, if the stack works on the same core.
    fn occupy_thread(&mut self, thread: u32, until_ns: u64) {
        if self.stack.is_on_clients_cores() {
            let core = &mut self.cores[thread as usize];
            core.free_at_ns = core.free_at_ns.max(until_ns);
        }
    }

    /// Hands a thread's request to that thread's core of the stack.
    pub(super) fn hand_over(&mut self, thread: u32) -> Result<()> {
        let request = self.clients.made(thread).context("a thread made nothing")?;
        let core = thread as usize % self.cores.len();
        self.cores[core].owed_ns += match request.operation {
            Operation::Write => self.host.serve_write_ns,
            _ => self.host.serve_read_ns,
        };
        self.tell(core as u16, Input::Request(request));
        Ok(())
    }

    pub(super) fn tell_clients(&mut self, core: u16) -> Result<()> {
        let now_ns = self.queue.now_ns();
        let world = self.stack.world(usize::from(core));
        let mut completions = std::mem::take(&mut world.completions);
        for completion in &completions {
            if let Err(failure) = completion.result {
                bail!("a request was answered {failure:?}, although nothing fails here");
            }
            let command = self.clients.answered(completion.tag);
            let command = command
                .with_context(|| format!("request {} was answered twice", completion.tag))?;
            self.under_way -= 1;
            self.audit.answer(command.issued_ns, now_ns);
            self.series.answered(now_ns);
            if let Some(meter) = &mut self.meter {
                meter.completed(&command, now_ns);
            }
            if self.stack.is_on_clients_cores() && u32::from(core) != command.thread {
                // The thread sleeps in the kernel, and another core has its answer.
                self.rouse(command.thread as u16);
            }
            self.issue(command.thread)?;
        }
        completions.clear();
        self.stack.world(usize::from(core)).completions = completions;
        Ok(())
    }
}
