import type { KubeClient } from './client.ts';
import type { Clock } from '@conversation-operator/base/clock';
import type { LeaseMembers } from './lease-members.ts';
import type { Logger } from '@conversation-operator/base/logger';

export interface LeaderElectionOptions {
  /**
   * Client for the Lease: neither a fenced client nor a client whose connections the work of the
   * leader uses.
   */
  readonly client: KubeClient;
  /** Namespace of the Lease. */
  readonly namespace: string;
  readonly name: string;
  /**
   * Identity of this process, unique over all processes and all time; a host name does not suffice.
   */
  readonly identity: string;
  /**
   * The processes that hold the Lease together; each of them leads. Absent: one process holds the
   * Lease.
   */
  readonly members?: LeaseMembers;
  /**
   * Time after the last observed renewal during which other candidates leave the Lease alone;
   * default 15 s. All candidates use the same value.
   */
  readonly leaseDurationMs?: number;
  /** Maximum time after its last renewal during which a leader leads; default 10 s. */
  readonly renewDeadlineMs?: number;
  /**
   * Delay between renewals; default 2 s. Candidates poll two to four times as often, so that they
   * soon see a released Lease.
   */
  readonly retryPeriodMs?: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  /**
   * Starts the work of the leader. The signal is aborted when leading is over or about to end; the
   * work then has to end, and the promise resolves when the work has ended. A promise that resolves
   * earlier has no effect, and one that rejects ends leading.
   */
  readonly onStartedLeading: (signal: AbortSignal) => Promise<void> | void;
  /** Called when the work of the leader has ended. */
  readonly onStoppedLeading?: () => void;
}
