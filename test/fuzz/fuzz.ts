import fc from 'fast-check';
import { issueKey, generateKey } from '../../src/gateway/auth/key.ts';
import { namespace, type Got, type Sent, type TwoOwners } from '../support/gateway/two-owners.ts';
import { answerAsAgent } from '../support/gateway/asking-agent.ts';
import { Contract } from '../support/openapi/contract.ts';
import { type OpenApi, type Operation, operationAt } from '../support/openapi/document.ts';
import { curlOf } from './curl.ts';
import { Population } from './population.ts';
import { requestFor, type Credentials } from './requests.ts';

export interface FuzzReport {
  readonly requests: number;
  readonly seconds: number;
  /** Ready to be printed: why, and how to send the request again. */
  readonly failures: readonly string[];
  readonly statuses: ReadonlyMap<number, number>;
  /** Operations of the document, with the statuses that they have answered. */
  readonly seen: ReadonlyMap<string, ReadonlySet<number>>;
  readonly world: TwoOwners;
}

const chunk = 100;
const maxFailures = 20;
const patienceMs = 60_000;
/** Below the service's limit, which also counts the request line and headers of the client. */
const maxHeadBytes = 15 * 1024;

export interface FuzzOptions {
  readonly requests: number;
  readonly seed: number;
  readonly watch?: (sent: Sent, got: Got) => void;
}

/** Sends `requests` requests made from the service's document; checks each answer by it. */
export async function fuzz(
  world: TwoOwners,
  { requests, seed, watch }: FuzzOptions,
): Promise<FuzzReport> {
  const began = performance.now();
  const population = new Population(world);
  world.agent.answer = answerAsAgent;
  const failures: string[] = [];
  const statuses = new Map<number, number>();
  const seen = new Map<string, Set<number>>();
  try {
    await population.fill();
    const document = JSON.parse(
      (await world.send({ method: 'GET', target: '/openapi.json' }))?.body.toString() ?? '',
    ) as OpenApi;
    const contract = new Contract(document);
    const credentials = await credentialsIn(world);
    let sent = 0;
    for (let turn = 0; sent < requests && failures.length < maxFailures; turn++) {
      await population.fill();
      // A request may have signed them out.
      const cookies = await cookiesIn(world);
      const { pools, aims } = population;
      const any = fc.oneof(
        ...contract.operations.map((operation) =>
          requestFor(document, operation, {
            pools,
            aims,
            credentials: { ...credentials, cookies },
          }),
        ),
      );
      for (const request of fc.sample(any, {
        seed: seed + turn,
        numRuns: Math.min(chunk, requests - sent),
      })) {
        sent += 1;
        const got = await world.send(request, patienceMs);
        const operation = operationAt(contract.operations, request.method, request.target);
        if (got !== undefined) {
          statuses.set(got.status, (statuses.get(got.status) ?? 0) + 1);
          if (operation !== undefined)
            seen.set(
              operation.operationId,
              (seen.get(operation.operationId) ?? new Set()).add(got.status),
            );
          watch?.(request, got);
          for (const [, cursor] of got.body.toString().matchAll(/"next_page_id":"([^"]+)"/g))
            population.remember(cursor ?? '');
        }
        const fault = faultOf(contract, request, got);
        if (fault === undefined) continue;
        failures.push(
          [
            `request ${sent} of seed ${seed}: ${fault}`,
            curlOf(`http://127.0.0.1:${world.port}`, request),
            `${got?.status ?? 'no answer'} ${got?.body.toString().slice(0, 600) ?? ''}`,
          ].join('\n'),
        );
      }
    }
    return {
      requests: sent,
      seconds: (performance.now() - began) / 1000,
      failures,
      statuses,
      seen,
      world,
    };
  } finally {
    await population.close();
  }
}

/** The operation passes requests on to agents, some of whose sandboxes are paused here. */
const isOfPausedSandbox = (operation: Operation | undefined, { status, body }: Got): boolean =>
  operation?.operationId === 'passToAgent' &&
  status === 503 &&
  body.includes('"code":"sandbox-not-running"');

function faultOf(contract: Contract, request: Sent, got: Got | undefined): string | undefined {
  if (got === undefined) return `no answer within ${patienceMs} ms`;
  const { method, target } = request;
  // An answer to OPTIONS has no body by definition.
  if (method === 'OPTIONS' && got.status === 204) return undefined;
  // Before anything knows which operation it was for; the document says so in its description.
  if (got.status === 431)
    return headBytesOf(request) > maxHeadBytes
      ? undefined
      : 'a head that is not too large is refused as such';
  const operation = operationAt(contract.operations, method, target);
  if (got.status >= 500 && !isOfPausedSandbox(operation, got)) return `answered by ${got.status}`;
  if (
    operation?.requestBody !== undefined &&
    got.status < 300 &&
    request.body !== undefined &&
    !isAllowed(contract, operation, request.body)
  ) {
    return `${operation.operationId} accepts a body that it documents as wrong`;
  }
  return contract.fault({ method, target, ...got });
}

const headBytesOf = ({ target, headers = {} }: Sent): number =>
  target.length +
  Object.entries(headers).reduce(
    (total, [name, value]) => total + name.length + String(value).length + 4,
    0,
  );

function isAllowed(
  contract: Contract,
  operation: Parameters<Contract['allowsBody']>[0],
  body: Buffer,
): boolean {
  // No body at all, where none is needed.
  if (body.length === 0) return true;
  try {
    return contract.allowsBody(
      operation,
      JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)),
    );
  } catch {
    return false;
  }
}

async function credentialsIn(world: TwoOwners): Promise<Omit<Credentials, 'cookies'>> {
  const { client } = world;
  const admin = await issueKey({
    client,
    namespace,
    owner: 'root',
    role: 'admin',
    description: "root's key",
  });
  const expired = await issueKey({
    client,
    namespace,
    owner: 'alice',
    expiresAt: '2020-01-01T00:00:00Z',
    description: "alice's key",
  });
  await world.seen(world.caches.apiKeys, expired.resource);
  const sessions = world.caches.sandboxes.store.list().slice(0, 2);
  const sessionKeys = sessions.map((sandbox) => world.sessionKeyOf(sandbox, 'alice'));
  return {
    valid: [world.keys.alice, world.keys.alice, world.keys.bob, admin.key],
    others: [expired.key, generateKey(), ...sessionKeys],
  };
}

async function cookiesIn({ keys, port }: TwoOwners): Promise<readonly string[]> {
  const answers = await Promise.all(
    [keys.alice, keys.alice, keys.bob].map((key) =>
      fetch(`http://127.0.0.1:${port}/login`, {
        method: 'POST',
        body: new URLSearchParams({ api_key: key }),
        headers: { origin: 'https://agents.example', 'sec-fetch-site': 'same-origin' },
        redirect: 'manual',
      }),
    ),
  );
  return answers.flatMap(({ headers }) =>
    headers.getSetCookie().map((line) => line.split(';')[0] ?? ''),
  );
}
