import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { SimulatedConnection, type ConnectionOptions } from './connection.ts';
import type { Random } from './random.ts';

/** The client of a machine of people, which no fault isolates from the API server. */
export function apiClient({
  random,
  ...connection
}: Omit<ConnectionOptions, 'isolated'> & { readonly random: Random }): HttpKubeClient {
  const transport = new Transport({
    connection: { server: 'http://api' },
    clock: connection.machine.clock,
    random: random.fork('transport').next,
    logger: silentLogger,
    dispatcher: new SimulatedConnection({ ...connection, isolated: () => false }),
  });
  return new HttpKubeClient({ transport });
}
