import type { CallOptions, KubeClient } from './client.ts';
import { TransportError } from './errors.ts';
import { InterceptedClient } from './intercepted-client.ts';
import type { LeaderElection } from './leader-election.ts';

export type Fence = Pick<LeaderElection, 'assertLeading' | 'writeDeadlineMs' | 'writes'>;

/**
 * Returns the client of a leader. Reads pass through. A write throws a NotLeadingError unless this
 * process is certain to hold the lease, both when the write is called and in the turn in which the
 * write is handed to a connection. The client abandons a write before another process can lead.
 */
export const fenced = (client: KubeClient, fence: Fence): KubeClient =>
  new InterceptedClient(client, ({ verb }, options, run) =>
    verb === 'get' || verb === 'list' ? run() : fencedWrite(fence, options, run),
  );

async function fencedWrite<R>(
  fence: Fence,
  options: CallOptions,
  run: (changed: CallOptions) => Promise<R>,
): Promise<R> {
  const { writeDeadlineMs, writes } = fence;
  fence.assertLeading();
  const { sent, ended } = writes.begin();
  const beforeSend = () => {
    fence.assertLeading();
    options.beforeSend?.();
    sent();
  };
  try {
    const result = await run({
      deadlineMs: Math.min(options.deadlineMs ?? writeDeadlineMs, writeDeadlineMs),
      beforeSend,
    });
    ended(true);
    return result;
  } catch (error) {
    ended(!(error instanceof TransportError && error.sent));
    throw error;
  }
}
