import { connect, connectForLease, createRuntime } from '../../../src/commands/process.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { leases } from '@conversation-operator/kube/core';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { json, startApiStub, type Answering } from '../../../packages/kube/test/api-stub.ts';

const lease = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: 'conversation-operator', namespace: 'ns' },
};
/** Far more than there are connections: as many as the workers of a leader may have under way. */
const writes = 200;

/** An API server that answers everything but patches, and what waits for it. */
async function busyServer() {
  const answer: Answering = (response, request) => {
    if (request.method === 'GET') json(lease)(response, request);
  };
  const stub = await startApiStub([answer]);
  const runtime = createRuntime(silentLogger);
  const connection = { server: stub.url };
  const work = connect(connection, runtime);
  const ended = new AbortController();
  const { signal } = ended;
  const pending = Array.from({ length: writes }, () =>
    work.client.mergePatch(sandboxes, 'ns', 'one', {}, { signal }).catch(() => undefined),
  );
  while (stub.requests.length < 16) await new Promise((resolve) => setImmediate(resolve));
  return {
    stub,
    connection,
    runtime,
    work,
    signal,
    close: async () => {
      ended.abort(new Error('the test is over'));
      await Promise.all(pending);
      await work.transport.close();
      await stub.close();
    },
  };
}

describe('the client of the lease', () => {
  it('is answered at once while every connection of the leader waits for the API server', async () => {
    const { stub, connection, runtime, work, signal, close } = await busyServer();
    const own = connectForLease(connection, runtime);
    const shared = work.client.get(leases, 'ns', 'conversation-operator', { signal }).then(
      () => 'answered',
      () => 'failed',
    );
    expect(await own.client.get(leases, 'ns', 'conversation-operator')).toEqual(lease);
    // Over the connections of the work, it has not even been sent.
    expect(stub.requests.filter(({ method }) => method === 'GET')).toHaveLength(1);
    await own.transport.close();
    await close();
    expect(await shared).toBe('failed');
  });
});
