import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { eventually } from '../support/eventually.ts';
import { apply, stateFolder } from './support/cluster.ts';
import {
  causes,
  priorityClass,
  restrictNamespace,
  templateOf,
  unrestrictNamespace,
  type Cause,
} from './support/causes.ts';
import { TestedInstallation, report } from './support/installation.ts';

const up = new TestedInstallation('causes');
const withinMs = 150_000;
const image = `${process.env['REGISTRY'] ?? ''}/conversation-operator-agent:${process.env['TAG'] ?? ''}`;
const templateName = (cause: Cause): string => `cause-${causes.indexOf(cause)}`;

/** The test chooses the id of the start, so that its resource is known before it exists. */
const idOf = (cause: Cause): string =>
  (0xe2e000000000 + causes.indexOf(cause)).toString(16).padStart(32, '0');

interface Start {
  readonly status: string;
  readonly errorCode?: string;
  readonly error?: string;
  readonly transitions: readonly { readonly status: string; readonly time: string }[];
}
const seconds = (from: string, to: string): number =>
  Math.round((Date.parse(to) - Date.parse(from)) / 1000);
/**
 * Maximum time until a cause is reported; a start that may still succeed continues after that. The
 * slowest, an unbound volume, is reported after 20 s on a quiet machine.
 */
const maxReportSeconds = 60;

/** Waits for the start to end, and for its Event; both may have come long before. */
async function endsAsSaid(cause: Cause): Promise<void> {
  const { created, sandbox, start } = await eventually(
    'the start to end',
    async () => {
      const { metadata, status } = JSON.parse(
        await up.k(`get conversation ${idOf(cause)} -o json`),
      ) as {
        metadata: { creationTimestamp: string };
        status?: { sandboxName?: string; start?: Start };
      };
      if (status?.start === undefined || !['READY', 'ERROR'].includes(status.start.status))
        return undefined;
      return {
        created: metadata.creationTimestamp,
        sandbox: status.sandboxName ?? '',
        start: status.start,
      };
    },
    withinMs,
  );
  expect(start).toMatchObject({
    status: 'ERROR',
    errorCode: expect.stringMatching(
      `^(${cause.code}|${cause.otherCode ?? cause.code})$`,
    ) as string,
    error: expect.stringMatching(cause.says) as string,
  });
  // No message of the API server itself, which may contain details of the platform.
  expect(start.error).not.toMatch(
    /forbidden|internal words|pods "|admissionregistration|kubernetes\.io|dial tcp/,
  );
  expect((await up.conversation(idOf(cause))).sandbox_status).toBe('ERROR');
  const reported = await eventually('an Event', async () => {
    const ofSandbox = `get events --field-selector involvedObject.name=${sandbox},reason=${start.errorCode ?? ''}`;
    return (
      (await up.k(`${ofSandbox} -o jsonpath={.items[*].metadata.creationTimestamp}`))
        .split(' ')
        .toSorted()[0] || undefined
    );
  });
  const reportedAfter = seconds(created, reported);
  const overAfter = seconds(created, start.transitions.at(-1)?.time ?? '');
  report(`  ${cause.code}`, `reported after ${reportedAfter} s, given up after ${overAfter} s`);
  expect(reportedAfter).toBeLessThanOrEqual(maxReportSeconds);
}

describe('a start that fails because of', () => {
  beforeAll(async () => {
    await apply({
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'ConversationQuota',
      metadata: { name: 'of-causes', namespace: up.facts.sandboxes },
      spec: { scope: 'Owner', owner: 'causes', limit: 50 },
    });
    await restrictNamespace();
    await apply(...causes.map((cause) => templateOf(templateName(cause), image, cause)));
    // A policy works a little after it has been stored, and so does a quota.
    const refused = (pod: object) =>
      eventually('pods to be refused', () =>
        up.k('create --dry-run=server -f -', JSON.stringify(pod)).then(
          () => false,
          (error: unknown) => /denied request|exceeded quota/.test(String(error)),
        ),
      );
    const pod = (labels: object, spec: object) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'trial', labels },
      spec: {
        ...spec,
        securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
        containers: [
          {
            name: 'a',
            image,
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          },
        ],
      },
    });
    await refused(pod({ 'e2e-cause': 'policy' }, {}));
    await refused(pod({}, { priorityClassName: priorityClass }));
    // All at once: some have to wait for a deadline, or for a third crash.
    await Promise.all(
      causes.map((cause) =>
        up.start('Hello.', { sandbox_spec_id: templateName(cause), conversation_id: idOf(cause) }),
      ),
    );
  });
  afterAll(async () => {
    await Promise.all(
      causes.map((cause) => up.call('DELETE', `/api/v1/app-conversations/${idOf(cause)}`)),
    );
    await unrestrictNamespace();
    await up.k(['delete', 'sandboxtemplates', ...causes.map(templateName), '--ignore-not-found']);
    await up.k('delete conversationquota of-causes --ignore-not-found');
  });

  it.each(causes.map((cause) => ({ ...cause, cause })))(
    '$name ends with the code $code, a text, and an Event',
    ({ cause }) => endsAsSaid(cause),
    200_000,
  );

  // The registry of the node's images must be on this machine.
  (stateFolder === undefined ? it.skip : it)(
    'an image that its registry does not know ends long before the deadline',
    async () => {
      const registry = createServer((_request, response) => response.writeHead(404).end()).listen(
        0,
        '127.0.0.1',
      );
      await once(registry, 'listening');
      const { port } = registry.address() as AddressInfo;
      const cause: Cause = {
        name: '',
        code: 'ImagePullFailed',
        says: /none:1 can't be pulled\.$/,
        container: { image: `localhost:${port}/none:1` },
      };
      await apply(templateOf('unknown-image', image, cause));
      await up.start('Hello.', { sandbox_spec_id: 'unknown-image', conversation_id: idOf(cause) });
      await endsAsSaid(cause);
      registry.close();
      await up.call('DELETE', `/api/v1/app-conversations/${idOf(cause)}`);
      await up.k('delete sandboxtemplate unknown-image');
    },
    200_000,
  );

  it('a template that does not exist is refused by REST, and in ERROR when kubectl asks for it', async () => {
    const { status } = await up.call('POST', '/api/v1/app-conversations', {
      initial_message: null,
      sandbox_spec_id: 'none-such',
    });
    expect([404, 422]).toContain(status);
    const metadata = { name: 'no-template', namespace: up.facts.sandboxes };
    await apply({
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'Conversation',
      metadata,
      spec: { owner: 'causes', templateName: 'none-such' },
    });
    await up.k(
      'wait --for=jsonpath={.status.start.status}=ERROR conversation/no-template --timeout=30s',
    );
    expect(await up.k('get conversation no-template -o jsonpath={.status.start.errorCode}')).toBe(
      'TemplateNotFound',
    );
    await up.k('delete conversation no-template');
  });

  it('a template that the API server refuses is reported to its author beforehand', async () => {
    const invalid = causes.filter(({ code }) =>
      ['TemplateInvalid', 'PodSecurityViolated', 'LimitRangeViolated'].includes(code),
    );
    for (const cause of invalid) {
      await up.k(
        `wait --for=condition=Valid=False sandboxtemplate/${templateName(cause)} --timeout=20s`,
      );
    }
    const ofDefault =
      'get sandboxtemplate default -o jsonpath={.status.conditions[?(@.type=="Valid")].status}';
    expect(await up.k(ofDefault)).toBe('True');
  });
});

describe('a start continues by itself', () => {
  it('when a resource quota has room again, after its deadline', async () => {
    const cause: Cause = {
      name: 'late room',
      code: 'ResourceQuotaExceeded',
      says: /./,
      startDeadline: '15s',
    };
    // A quota that allows no pod at all would end the start at its deadline.
    const first = await up.over((await up.start('Hello.')).id, withinMs);
    const quota = {
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'e2e-full', namespace: up.facts.sandboxes },
    };
    const used = (await up.k('get pods -o name')).split('\n').filter(Boolean).length;
    await apply(
      { ...quota, spec: { hard: { pods: String(used) } } },
      templateOf('late-room', image, cause),
    );
    try {
      await eventually(
        'the quota to count',
        async () =>
          (await up.k('get resourcequota e2e-full -o jsonpath={.status.hard.pods}')) !== '',
      );
      const { id } = await up.start('Hello.', { sandbox_spec_id: 'late-room' });
      await eventually('it to say what it waits for', async () =>
        (await up.k('get sandboxes -o jsonpath={.items[*].status.reason}')).includes(
          'ResourceQuotaExceeded',
        ),
      );
      // The start waits for longer than its deadline.
      const waitsUntil = Date.now() + 20_000;
      await eventually('its deadline to pass', () => Promise.resolve(Date.now() > waitsUntil));
      expect((await up.startTask(id)).status).toBe('WAITING_FOR_SANDBOX');
      await up.k('delete resourcequota e2e-full');
      const task = await up.over(id, withinMs);
      expect(task).toMatchObject({ status: 'READY', error: null });
      for (const { app_conversation_id: made } of [first, task])
        await up.call('DELETE', `/api/v1/app-conversations/${made ?? ''}`);
    } finally {
      await up.k('delete resourcequota/e2e-full sandboxtemplate/late-room --ignore-not-found');
    }
  }, 200_000);

  it('a template that takes what belongs to the node, or a reserved label, is refused by the admission policy', async () => {
    const refusal = (cause: Pick<Cause, 'pod' | 'labels'>) =>
      apply(
        templateOf('refused', image, {
          name: 'refused',
          code: 'TemplateInvalid',
          says: /./,
          ...cause,
        }),
      ).then(
        () => 'accepted',
        (error: unknown) => String(error),
      );
    expect(await refusal({ pod: { hostNetwork: true } })).toMatch(
      /denied request: a pod template must not use the node's namespaces/,
    );
    expect(await refusal({ labels: { 'conversation-operator.dev/sandbox': 'another' } })).toMatch(
      /labels of a pod template must not be reserved/,
    );
  });
});
