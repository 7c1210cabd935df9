import { ControlPlane } from '@conversation-operator/local-cluster/control-plane';
import { startApiServer, type ApiServer } from '@conversation-operator/local-cluster/http/server';
import { sleep, systemClock } from '@conversation-operator/base/clock';
import { Controller } from '@conversation-operator/kube/controller';
import {
  isAlreadyExists,
  isConflict,
  isNotFound,
  TransportError,
} from '@conversation-operator/kube/errors';
import { EventRecorder } from '@conversation-operator/kube/events';
import { fenced } from '@conversation-operator/kube/intercepted-client';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { LeaderElection } from '@conversation-operator/kube/leader-election';
import { Reflector } from '@conversation-operator/kube/reflector';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { kubeEvents, leases, pods } from '@conversation-operator/kube/core';
import { crdOf, definitions } from '../../../src/resources/crd.ts';
import type { NewObject } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import { eventually } from '../../support/eventually.ts';
import { startClosingProxy } from './closing-proxy.ts';

const runtime = { clock: systemClock, random: Math.random, logger: silentLogger };
const token = 'integration';
const namespace = 'default';

let stack: AsyncDisposableStack;
let server: ApiServer;
let url: string;
let client: HttpKubeClient;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  // A short history, so that a watch that was away for long finds its version gone.
  const plane = new ControlPlane({ storage: 'memory', logCapacity: 50, ...runtime });
  stack.defer(() => plane.close());
  await plane.start();
  await plane.applyCrds(definitions.map(crdOf));
  server = await startApiServer({ plane, host: '127.0.0.1', port: 0, token, logger: silentLogger });
  stack.defer(() => server.close());
  url = server.url;
  client = clientOf(url);
});
afterEach(() => stack.disposeAsync());

function clientOf(address: string, ca?: string): HttpKubeClient {
  const connection = { server: address, token, ...(ca === undefined ? {} : { ca }) };
  const transport = new Transport({ connection, deadlineMs: 60_000, ...runtime });
  stack.defer(() => transport.close());
  return new HttpKubeClient({ transport });
}

const aSandbox = (name: string): NewObject<Sandbox> => ({
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind: 'Sandbox',
  metadata: { namespace, name },
  spec: { owner: 'alice', templateName: 'default', replicas: 1 },
});

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('the client layer on a real API server', () => {
  it('creates, reads, changes and deletes', async () => {
    const created = await client.create(sandboxes, aSandbox('one'));
    expect(await client.get(sandboxes, namespace, 'one')).toEqual(created);
    expect(isAlreadyExists(await failureOf(client.create(sandboxes, aSandbox('one'))))).toBe(true);

    const updated = await client.update(sandboxes, {
      ...created,
      spec: { ...created.spec, replicas: 0 },
    });
    expect(updated.spec.replicas).toBe(0);
    expect(isConflict(await failureOf(client.update(sandboxes, created)))).toBe(true);

    const reported = await client.updateStatus(sandboxes, {
      ...updated,
      status: { phase: 'PAUSED' },
    });
    expect(reported).toMatchObject({ spec: { replicas: 0 }, status: { phase: 'PAUSED' } });
    const patched = await client.mergePatch(
      sandboxes,
      namespace,
      'one',
      { spec: { replicas: 1 } },
      { dryRun: true },
    );
    expect(patched.spec.replicas).toBe(1);
    expect(await client.get(sandboxes, namespace, 'one')).toEqual(reported);

    expect(
      isConflict(await failureOf(client.delete(sandboxes, namespace, 'one', { uid: 'another' }))),
    ).toBe(true);
    await client.delete(sandboxes, namespace, 'one', { uid: created.metadata.uid });
    expect(isNotFound(await failureOf(client.get(sandboxes, namespace, 'one')))).toBe(true);
  });

  it('speaks TLS to a server whose certificate it can check, and to no other', async () => {
    const sandbox = await client.create(sandboxes, aSandbox('one'));
    expect(await clientOf(server.secureUrl, server.ca).get(sandboxes, namespace, 'one')).toEqual(
      sandbox,
    );
    expect(
      await failureOf(clientOf(server.secureUrl).create(sandboxes, aSandbox('two'))),
    ).toMatchObject({ name: 'TransportError', sent: false });
  });

  it('binds a pod', async () => {
    const container = { name: 'agent', image: 'agent:1' };
    await client.create(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace, name: 'one' },
      spec: { containers: [container] },
    });
    const binding = {
      apiVersion: 'v1',
      kind: 'Binding',
      metadata: { name: 'one' },
      target: { kind: 'Node', name: 'here' },
    };
    await client.createSubresource(pods, namespace, 'one', 'binding', binding);
    expect((await client.get(pods, namespace, 'one')).spec?.nodeName).toBe('here');
  });

  it('lists more than one page', async () => {
    for (let index = 0; index < 620; index++)
      await client.create(sandboxes, aSandbox(`sandbox-${index}`));
    const { items } = await client.list(sandboxes, { namespace });
    expect(new Set(items.map(({ metadata }) => metadata.name)).size).toBe(620);
    expect(
      (await client.list(sandboxes, { fieldSelector: 'metadata.name=sandbox-7' })).items,
    ).toHaveLength(1);
  });

  it('keeps a store equal to the server over connections that close all the time', async () => {
    const proxy = await startClosingProxy(url);
    stack.defer(() => proxy.close());
    // Waits are shortened as a run of bad luck would be unlikely to.
    const clock = {
      ...systemClock,
      after: (delayMs: number, callback: () => void) => systemClock.after(delayMs / 50, callback),
    };
    const transport = new Transport({ connection: { server: proxy.url, token }, ...runtime });
    stack.defer(() => transport.close());
    const reflector = new Reflector({
      client: new HttpKubeClient({ transport }),
      resource: sandboxes,
      ...runtime,
      clock,
      silenceMs: 100_000,
    });
    const present = new Map<string, string>();
    reflector.addHandler({
      added: ({ metadata }) => present.set(metadata.uid, metadata.resourceVersion),
      updated: ({ metadata }) => present.set(metadata.uid, metadata.resourceVersion),
      deleted: ({ metadata }) => present.delete(metadata.uid),
    });
    reflector.start();
    stack.defer(() => reflector.stop());
    for (let round = 0; round < 300; round++) {
      const name = `sandbox-${round % 7}`;
      if (round % 3 === 2) await client.delete(sandboxes, namespace, name).catch(() => undefined);
      else if (isAlreadyExists(await failureOf(client.create(sandboxes, aSandbox(name))))) {
        await client.mergePatch(
          sandboxes,
          namespace,
          name,
          { status: { message: String(round) } },
          { subresource: 'status' },
        );
      }
      if (round % 10 === 0) proxy.closeConnections();
    }
    await eventually('store, handlers and server agree', async () => {
      const { items } = await client.list(sandboxes);
      const versions = new Map(
        items.map(({ metadata }) => [metadata.uid, metadata.resourceVersion]),
      );
      expect(
        new Map(
          reflector.store.list().map(({ metadata }) => [metadata.uid, metadata.resourceVersion]),
        ),
      ).toEqual(versions);
      expect(present).toEqual(versions);
      return true;
    });
  });

  it('never repeats a write whose connection closes', async () => {
    const proxy = await startClosingProxy(url);
    stack.defer(() => proxy.close());
    const interrupted = clientOf(proxy.url);
    let unknown = 0;
    let known = 0;
    const timer = setInterval(proxy.closeConnections, 7);
    for (let index = 0; index < 150; index++) {
      const error = await failureOf(
        interrupted.create(sandboxes, {
          ...aSandbox(''),
          metadata: { namespace, generateName: 'made-' },
        }),
      );
      if (error instanceof TransportError) unknown++;
      else if (error === undefined) known++;
    }
    clearInterval(timer);
    const { items } = await client.list(sandboxes);
    expect(items.length).toBeGreaterThanOrEqual(known);
    expect(items.length).toBeLessThanOrEqual(known + unknown);
  });

  it('drives a controller from a watch', async () => {
    const reflector = new Reflector({ client, resource: sandboxes, ...runtime });
    const controller = new Controller({
      name: 'test',
      ...runtime,
      reconcile: async (request) => {
        const sandbox = reflector.store.get(request.namespace, request.name);
        if (sandbox === undefined || sandbox.status?.phase === 'RUNNING') return undefined;
        await client.updateStatus(sandboxes, { ...sandbox, status: { phase: 'RUNNING' } });
        return undefined;
      },
    });
    const enqueue = ({ metadata }: Sandbox) => controller.enqueue(metadata);
    reflector.addHandler({ added: enqueue, updated: enqueue });
    reflector.start();
    controller.start();
    stack.defer(() => controller.stop());
    stack.defer(() => reflector.stop());
    for (let index = 0; index < 20; index++)
      await client.create(sandboxes, aSandbox(`sandbox-${index}`));
    await eventually('all of them run', async () => {
      const { items } = await client.list(sandboxes);
      return items.filter(({ status }) => status?.phase === 'RUNNING').length === 20;
    });
  });

  it('hands leadership from one process to the next, with its writes', async () => {
    const durations = { leaseDurationMs: 90_000, renewDeadlineMs: 60_000, retryPeriodMs: 100 };
    const wins: string[] = [];
    const run = (identity: string) => {
      const abort = new AbortController();
      const election: LeaderElection = new LeaderElection({
        client,
        namespace,
        name: 'operator',
        identity,
        ...durations,
        ...runtime,
        onStartedLeading: async (signal) => {
          await fenced(client, election).create(sandboxes, aSandbox(identity));
          wins.push(identity);
          await sleep(systemClock, 60_000, signal).catch(() => undefined);
        },
      });
      const done = election.run(abort.signal);
      return async () => {
        abort.abort();
        await done;
      };
    };
    const stopOne = run('one');
    await eventually('the first leads', () => wins.length === 1);
    const stopTwo = run('two');
    await stopOne();
    await eventually('the second leads', () => wins.length === 2);
    expect(wins).toEqual(['one', 'two']);
    expect((await client.get(leases, namespace, 'operator')).spec).toMatchObject({
      holderIdentity: 'two',
      leaseTransitions: 1,
    });
    await stopTwo();
    expect((await client.get(leases, namespace, 'operator')).spec?.holderIdentity).toBe('');
  });

  it('writes events, and counts them up', async () => {
    const recorder = new EventRecorder({ client, component: 'test', ...runtime });
    const sandbox = await client.create(sandboxes, aSandbox('one'));
    for (let count = 0; count < 3; count++)
      recorder.record(sandbox, { type: 'Normal', reason: 'Paused', message: 'made room' });
    await recorder.close();
    const { items } = await client.list(kubeEvents, { namespace });
    expect(
      items.map(({ reason, count, involvedObject }) => [reason, count, involvedObject.name]),
    ).toEqual([['Paused', 3, 'one']]);
  });
});
