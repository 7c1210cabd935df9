import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { systemClock } from '@conversation-operator/base/clock';
import { nodes, pods, type Pod } from '@conversation-operator/kube/core';
import { isNotFound } from '@conversation-operator/kube/errors';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { Reflector } from '@conversation-operator/kube/reflector';
import { silentLogger } from '@conversation-operator/base/logger';
import { connectTo, namespace } from './api-server.ts';
import { pageText } from './event-log.ts';

/**
 * A node as KWOK has them: its pods run as soon as they are there, at loopback addresses, and one
 * server at all of these addresses answers for their agents. `fake-node.ts KUBECONFIG NODE PORT`.
 * With `EVENTS RATE` behind it, each conversation runs and has that many events, and RATE more each
 * second, which come in a log of their own. Prints a line once it is ready.
 */
const [kubeconfig = '', name = '', port = '', first = '', perSecond = '0'] = process.argv.slice(2);
const hasEvents = first !== '';
const { connection } = await loadConnection({ kubeconfig });
const { client } = connectTo(connection);
const beatMs = 10_000;

interface KnownConversation {
  readonly info: Readonly<Record<string, unknown>>;
  /** Time of the start, in milliseconds since 1970. */
  readonly startedMs: number;
}

interface Agent {
  hasKeys: boolean;
  /** By id without hyphens. */
  readonly conversations: Map<string, KnownConversation>;
}
const newAgent = (): Agent => ({ hasKeys: false, conversations: new Map() });
const agents = new Map<string, Agent>();

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}

/** Report of the agent about a conversation; a log that grows was updated at its last event. */
function reportOf({ info, startedMs }: KnownConversation): object {
  if (Number(perSecond) === 0) return info;
  const events = eventsOf(startedMs);
  return {
    ...info,
    updated_at: new Date(startedMs + (events * 1000) / Number(perSecond)).toISOString(),
  };
}

const eventsOf = (startedMs: number): number =>
  Number(first) + Math.floor(((Date.now() - startedMs) * Number(perSecond)) / 1000);

/** A text is JSON already. */
const textOf = (answer: unknown): string =>
  typeof answer === 'string' ? answer : JSON.stringify(answer);

/** Answer of an agent, idle unless it has events; undefined for a path that it does not have. */
function answerOf(
  { conversations }: Agent,
  [method, path, query]: readonly [string, string, URLSearchParams],
  body: Readonly<Record<string, unknown>>,
): unknown {
  switch (path) {
    case '/ready':
    case '/alive':
      return { status: 'ready' };
    case '/api/bash/execute_bash_command':
      return { exit_code: 0, stdout: '/workspace/project\n', stderr: '' };
    case '/api/hooks':
      return { hook_config: null };
    case '/server_info':
      return { uptime: 1, idle_time: 1, version: 'bench' };
    case '/api/conversations/search':
      return { items: [], next_page_id: null };
    case '/api/conversations/count':
      return 0;
    case '/api/conversations': {
      if (method !== 'POST')
        return query.getAll('ids').map((id) => {
          const known = conversations.get(id.replaceAll('-', ''));
          return known === undefined ? null : reportOf(known);
        });
      const id = String(body['conversation_id']);
      const startedMs = Date.now();
      const now = new Date(startedMs).toISOString();
      const execution_status = hasEvents ? 'running' : 'idle';
      const info = { id, execution_status, created_at: now, updated_at: now };
      const known = { info: { ...info, tags: body['tags'] }, startedMs };
      conversations.set(id.replaceAll('-', ''), known);
      return info;
    }
    default: {
      const [, id = '', rest] =
        /^\/api\/conversations\/([\da-f-]+)(?:\/events\/(search|count))?$/.exec(path) ?? [];
      const known = conversations.get(id.replaceAll('-', ''));
      if (known === undefined || rest === undefined)
        return known === undefined ? undefined : reportOf(known);
      const events = hasEvents ? eventsOf(known.startedMs) : 0;
      return rest === 'count' ? events : pageText(events, query);
    }
  }
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const address = request.socket.localAddress?.replace('::ffff:', '') ?? '';
  const { method = '' } = request;
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://agent');
  let agent = agents.get(address);
  if (agent === undefined) agents.set(address, (agent = newAgent()));
  const body = await bodyOf(request);
  if (pathname === '/api/init' && method === 'POST') agent.hasKeys = true;
  const answer =
    pathname === '/api/init'
      ? { state: agent.hasKeys ? 'ready' : 'dormant' }
      : answerOf(agent, [method, pathname, searchParams], body);
  const isNew = pathname === '/api/conversations' && method === 'POST';
  const status = answer === undefined ? 404 : isNew ? 201 : 200;
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(textOf(answer ?? { detail: `no ${pathname}` }));
}
createServer((request, response) => void serve(request, response)).listen(Number(port), '0.0.0.0');

const ready = () => ({
  type: 'Ready',
  status: 'True',
  reason: 'Bench',
  message: '',
  lastHeartbeatTime: new Date().toISOString(),
  lastTransitionTime: new Date(0).toISOString(),
});
await client.create(nodes, { apiVersion: 'v1', kind: nodes.kind, metadata: { name } });
const beat = () =>
  client.mergePatch(
    nodes,
    '',
    name,
    { status: { conditions: [ready()], capacity: { pods: '100000' } } },
    { subresource: 'status' },
  );
await beat();
setInterval(() => void beat().catch(() => undefined), beatMs);

let addresses = 0;
/** 127.64.0.0/12, without the network's own address. */
function nextAddress(): string {
  addresses = (addresses % 0x0f_ffff) + 1;
  return `127.${64 + (addresses >> 16)}.${(addresses >> 8) & 255}.${addresses & 255}`;
}

async function run({ metadata, spec, status }: Pod): Promise<void> {
  const { name: pod, uid, deletionTimestamp, namespace: place = '' } = metadata;
  if (spec?.nodeName !== name) return;
  try {
    if (deletionTimestamp !== undefined) {
      await client.delete(pods, place, pod, { uid, gracePeriodSeconds: 0 });
      return;
    }
    if (status?.phase === 'Running') return;
    const podIP = nextAddress();
    agents.delete(podIP);
    const now = new Date().toISOString();
    const containerStatuses = spec.containers.map(({ name: container, image = '' }) => ({
      name: container,
      image,
      imageID: image,
      ready: true,
      started: true,
      restartCount: 0,
      containerID: `bench://${uid}`,
      state: { running: { startedAt: now } },
    }));
    const condition = (type: string) => ({ type, status: 'True', lastTransitionTime: now });
    const conditions = ['Initialized', 'ContainersReady', 'Ready'].map(condition);
    const running = { phase: 'Running', podIP, podIPs: [{ ip: podIP }], startTime: now };
    await client.mergePatch(
      pods,
      place,
      pod,
      { metadata: { uid }, status: { ...running, conditions, containerStatuses } },
      { subresource: 'status' },
    );
  } catch (error) {
    if (!isNotFound(error)) process.stderr.write(`${pod}: ${String(error)}\n`);
  }
}

const reflector = new Reflector<Pod>({
  client,
  resource: pods,
  namespace,
  clock: systemClock,
  random: Math.random,
  logger: silentLogger,
});
reflector.addHandler({ added: (pod) => void run(pod), updated: (pod) => void run(pod) });
reflector.start();
await reflector.synced();
process.stdout.write('ready\n');
