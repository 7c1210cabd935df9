import type { CallOptions, KubeClient } from './client.ts';
import { TransportError } from './errors.ts';
import { InterceptedClient } from './intercepted-client.ts';
import type { LeaderElection } from './leader-election.ts';

export type Fence = Pick<LeaderElection, 'assertLeading' | 'writeDeadlineMs' | 'writes'>;

/**
 * The client of a leader. Reads pass. A write throws a NotLeadingError unless the lease is surely held, both when it is called
 * and in the turn in which it is handed to a connection, and is given up before another process can have begun to lead.
 */
export const fenced = (client: KubeClient, fence: Fence): KubeClient =>
  new InterceptedClient(client, ({ verb }, options, run) => (verb === 'get' || verb === 'list' ? run() : fencedWrite(fence, options, run)));

async function fencedWrite<R>(fence: Fence, options: CallOptions, run: (changed: CallOptions) => Promise<R>): Promise<R> {
  const { writeDeadlineMs, writes } = fence;
  fence.assertLeading();
  const { sent, ended } = writes.begin();
  const beforeSend = () => {
    fence.assertLeading();
    options.beforeSend?.();
    sent();
  };
  try {
    const result = await run({ deadlineMs: Math.min(options.deadlineMs ?? writeDeadlineMs, writeDeadlineMs), beforeSend });
    ended(true);
    return result;
  } catch (error) {
    ended(!(error instanceof TransportError && error.sent));
    throw error;
  }
}
