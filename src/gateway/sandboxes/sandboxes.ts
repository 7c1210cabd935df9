import { requireTemplate } from '../auth/key-ring.ts';
import {
  type Exposure,
  presentSandbox,
  sandboxList,
  sandboxPage,
  sandboxSchema,
} from '../presenters/sandbox.ts';
import type { StorageCaps } from '../lookup/storage-caps.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { HistoryReads } from '../history/history-reads.ts';
import type { RandomBytes } from '../auth/key.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import { found, isConflict, mayBeExecuted } from '@conversation-operator/kube/errors';
import { apiVersion } from '../../resources/group.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { ownSandboxName } from '../../resources/ids.ts';
import type { NewObject } from '@conversation-operator/kube/object';
import {
  sandboxes,
  type Sandbox,
  maxSessionKeyGeneration,
  sessionKeyGenerationAnnotation,
  sessionKeyGenerationOf,
} from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import { type Route, changeableSandbox, endpoints, success, successSchema } from '../http/route.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound } from '../errors/common-problems.ts';
import { searchPage, creationOf, sortedBy } from '../paging/keyset.ts';
import { deleteOwned, refuseMoved, whileOwned, writeOnStored } from '../lookup/stored.ts';
import { z } from 'zod';
import {
  optional,
  refuseTooMany,
  unusedParameter,
  idQuery,
  pageQuery,
  sandboxParams,
} from '../http/fields.ts';
import { refuseOverQuota } from '../quota/quota.ts';
import { comesBackFromError, refuseUnusable, requestResume, requestRun } from './resume.ts';

interface SandboxNeeds {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly lookup: ResourceLookup;
  readonly feeds: { readonly sandboxes: ObjectFeed<Sandbox> };
  readonly caps: StorageCaps;
  readonly exposure: Exposure;
  readonly history: HistoryReads;
  readonly templateName: string;
}

/** The next generation. After an unreadable generation: Unix time, which exceeds any count. */
function generationAfter(sandbox: Sandbox, nowMs: number): number {
  const generation = sessionKeyGenerationOf(sandbox) ?? Math.floor(nowMs / 1000);
  if (generation >= maxSessionKeyGeneration)
    throw new ProblemError(
      'conflict',
      'The session keys of the sandbox can not be rotated any more.',
    );
  return generation + 1;
}

/**
 * Increments the session key generation of a sandbox, and waits until the cache shows it. The write
 * names the resourceVersion that was read, so that concurrent requests, retries and lost responses
 * cause one rotation, and never a return to an earlier generation.
 */
async function rotateSessionKey(
  { client, clock, feeds }: SandboxNeeds,
  sandbox: Sandbox,
): Promise<void> {
  const { namespace, name } = sandbox.metadata;
  let first: number | undefined;
  const read = async () => {
    const stored = await found(client.get(sandboxes, namespace, name));
    if (stored === undefined) throw notFound('sandbox');
    refuseMoved('sandbox', stored, sandbox);
    return stored;
  };
  const write = async (stored: Sandbox) => {
    const present = sessionKeyGenerationOf(stored) ?? -1;
    first ??= present;
    if (present !== first) return stored;
    const generation = String(generationAfter(stored, clock.now()));
    const { resourceVersion } = stored.metadata;
    return client.mergePatch(sandboxes, namespace, name, {
      metadata: { resourceVersion, annotations: { [sessionKeyGenerationAnnotation]: generation } },
    });
  };
  const isPassing = (error: unknown) => mayBeExecuted(error) || isConflict(error);
  await feeds.sandboxes.shows(await writeOnStored(read, write, isPassing));
}

export const resumeRequestSchema = z.strictObject({
  run: optional(z.boolean()).describe(
    "Whether a run that its owner's pause has interrupted continues; false by default.",
  ),
});

const sandboxStartQuery = z.object({ sandbox_spec_id: z.string().optional() });

const base = '/api/v1/sandboxes';
const { get, post, remove } = endpoints('sandboxes');

export const sandboxRoutes = (needs: SandboxNeeds): readonly Route[] => [
  get(`${base}/search`, 'searchSandboxes', {
    summary: 'Sandboxes page by page, newest first',
    query: pageQuery,
    responses: { 200: sandboxPage },
    handle: ({ owner, query, reader }) => {
      const { items, next_page_id } = searchPage(
        sortedBy(needs.lookup.sandboxesOf(owner), creationOf),
        { order: 'sandboxes', descending: true, ...query },
      );
      const records = items.map((sandbox) => presentSandbox(sandbox, needs.exposure, reader));
      return { json: { items: records, next_page_id } };
    },
  }),
  get(base, 'getSandboxes', {
    summary: 'Sandboxes by id, in the order asked; null for unknown ones',
    query: idQuery,
    responses: { 200: sandboxList },
    problems: ['too-many-ids'],
    handle: async ({ owner, query, reader }) => {
      refuseTooMany(query.id);
      const found = await needs.lookup.sandboxes(owner, query.id);
      return {
        json: found.map((sandbox) =>
          sandbox ? presentSandbox(sandbox, needs.exposure, reader) : null,
        ),
      };
    },
  }),
  post(base, 'startSandbox', {
    scope: 'start',
    summary: 'Start a sandbox without a conversation',
    query: sandboxStartQuery,
    responses: { 200: sandboxSchema },
    problems: ['not-found', 'template-not-allowed', 'quota-exceeded', 'sandbox-limit-exceeded'],
    handle: async ({ principal, owner, query, about, reader }) => {
      requireTemplate(principal.chain, query.sandbox_spec_id ?? needs.templateName);
      const sandbox = await startSandbox(needs, owner, query.sandbox_spec_id);
      about(`sandbox/${sandbox.metadata.name}`);
      return { json: presentSandbox(sandbox, needs.exposure, reader) };
    },
  }),
  post(`${base}/{id}/pause`, 'pauseSandbox', {
    summary: 'Pause a sandbox; its files stay',
    params: sandboxParams,
    responses: { 200: successSchema },
    problems: ['not-found', 'wrong-state', 'conflict'],
    handle: async (call) => {
      const sandbox = await changeableSandbox(needs.lookup, call);
      refuseUnusable(viewOfSandbox(sandbox).phase);
      const { name, namespace, uid } = sandbox.metadata;
      // The pause is written even if the cache shows a paused sandbox, because the cache may lag
      // behind a resume. UID and owner protect another sandbox of the name, and one that has moved.
      const patch = { metadata: { uid }, spec: { owner: call.owner, replicas: 0 } };
      await whileOwned('sandbox', needs.client.mergePatch(sandboxes, namespace, name, patch));
      await needs.feeds.sandboxes.settled(name, (seen) => seen?.spec.replicas === 0);
      return success;
    },
  }),
  post(`${base}/{id}/resume`, 'resumeSandbox', {
    summary:
      'Resume a paused sandbox; after a pause by its owner its agent stays paused unless it is to run',
    params: sandboxParams,
    body: resumeRequestSchema,
    responses: { 200: successSchema },
    problems: ['not-found', 'template-not-allowed', 'wrong-state', 'conflict', 'quota-exceeded'],
    handle: async ({ body, ...call }) => {
      const sandbox = await changeableSandbox(needs.lookup, call);
      requireTemplate(call.principal.chain, sandbox.spec.templateName);
      const isFailed = comesBackFromError(needs.lookup, sandbox);
      refuseUnusable(viewOfSandbox(sandbox).phase, { comesBack: isFailed });
      const { name } = sandbox.metadata;
      if (isFailed || viewOfSandbox(needs.lookup.sandboxNamed(name)).phase === 'PAUSED')
        refuseOverQuota(needs.lookup, call.owner);
      await (body.run === true ? requestRun : requestResume)(needs, sandbox);
      return success;
    },
  }),
  post(`${base}/{id}/rotate-key`, 'rotateSandboxKey', {
    summary:
      'Replace the session keys of a sandbox: what the old ones have opened ends, and the next record has another one',
    params: sandboxParams,
    responses: { 200: successSchema },
    problems: ['not-found', 'wrong-state', 'conflict'],
    handle: async (call) => {
      const sandbox = await changeableSandbox(needs.lookup, call);
      await rotateSessionKey(needs, sandbox);
      return success;
    },
  }),
  remove(`${base}/{id}`, 'deleteSandbox', {
    summary: 'Delete a sandbox and its files',
    params: sandboxParams,
    query: z.object({ sandbox_id: unusedParameter('the path names the sandbox.') }),
    responses: { 200: successSchema },
    problems: ['not-found', 'wrong-state', 'conflict'],
    handle: async (call) => {
      const { client, feeds } = needs;
      const object = await changeableSandbox(needs.lookup, call);
      if (needs.history.readsArchives) await endAgent(needs, object);
      await deleteOwned(client, sandboxes, 'sandbox', object, feeds.sandboxes);
      return success;
    },
  }),
];

/** Maximum wait of a deletion until the operator has archived the data of the agent. */
const endMs = 10_000;

/**
 * Pauses a sandbox before its deletion, so that the operator archives the agent's data. A sandbox
 * whose pause does not end in time is deleted anyway.
 */
async function endAgent(
  { client, feeds }: SandboxNeeds,
  { metadata: { namespace, name, uid }, spec: { owner }, status }: Sandbox,
): Promise<void> {
  if (status?.podUID === undefined) return;
  const patch = { metadata: { uid }, spec: { owner, replicas: 0 } };
  await whileOwned('sandbox', found(client.mergePatch(sandboxes, namespace, name, patch)));
  const hasEnded = (seen: Sandbox | undefined) => seen?.status?.podUID === undefined;
  await feeds.sandboxes.settled(name, hasEnded, endMs);
}

async function startSandbox(
  needs: SandboxNeeds,
  owner: string,
  specId: string | undefined,
): Promise<Sandbox> {
  const { client, namespace, clock, random, lookup, feeds, caps } = needs;
  const template = await lookup.template(specId ?? needs.templateName);
  if (template === undefined) throw notFound('sandbox spec');
  refuseOverQuota(needs.lookup, owner);
  const name = ownSandboxName(newUuid(clock.now(), random));
  const object: NewObject<Sandbox> = {
    apiVersion,
    kind: sandboxes.kind,
    metadata: { namespace, name },
    spec: { owner, templateName: template.metadata.name, replicas: 1 },
  };
  const create = () =>
    client.create(sandboxes, object).catch(async (error: unknown) => {
      // A create without a response may have stored the sandbox. No other request uses its name.
      const present = mayBeExecuted(error) ? await lookup.sandbox(owner, name) : undefined;
      if (present === undefined) throw error;
      return present;
    });
  return caps.during(owner, { sandboxes: 1 }, async () => {
    const written = await create();
    await feeds.sandboxes.settled(name, (seen) => seen !== undefined);
    return written;
  });
}
