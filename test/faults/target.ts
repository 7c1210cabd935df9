import type { Connection } from '@conversation-operator/kube/transport';

/** The API server that the faults are in front of. */
export interface Target {
  /** For the summary. */
  readonly name: string;
  readonly connection: Connection;
  /**
   * SIGKILL and a new start, by what is restarted; each resolves when requests are answered again.
   */
  readonly restarts: Readonly<Partial<Record<'api-server' | 'etcd', () => Promise<void>>>>;
  close(): Promise<void>;
}
