import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { AgentWatch } from './support/agent-watch.ts';
import {
  apply,
  containerTask,
  crash,
  getJson,
  kubectl,
  restart,
  stateFolder,
} from './support/cluster.ts';
import { failedReads, type Absence, type ExpectedFailure } from './support/failed-reads.ts';
import { TestedInstallation, release, report } from './support/installation.ts';
import { startPersistently } from './support/persistent-start.ts';
import { ReadWatch } from './support/read-watch.ts';

const up = new TestedInstallation('chaos');
const { namespace, sandboxes } = up.facts;
const inRelease = (args: string) => kubectl(`--namespace ${namespace} ${args}`);
const limit = 3;
const outageMs = 10_000;
/** Time in which a kubelet that has just begun reports each of its pods. */
const firstReportMs = 10_000;

/** Failures that are the cluster's own. No other read may fail, whatever is away. */
const expectedFailures: readonly ExpectedFailure[] = [
  {
    component: 'the kubelet',
    outcomes: ['ECONNREFUSED'],
    because:
      'a kubelet before Kubernetes 1.35 that has just begun calls no pod ready before it has asked it, and the Service has no endpoint until then, because no other node has a gateway',
  },
];

/** Keeps when a component was away: for as long as `during` takes. */
type Away = (component: string, during: () => Promise<unknown>) => Promise<void>;

const leader = async (): Promise<string> => {
  const holder = await up.k('get lease conversation-operator -o jsonpath={.spec.holderIdentity}');
  const names = (
    await inRelease(
      'get pods -l app.kubernetes.io/component=operator -o jsonpath={.items[*].metadata.name}',
    )
  ).split(' ');
  const found = names.find((name) => holder.includes(name));
  if (found === undefined) throw new Error(`${holder} leads, which is none of ${names.join(', ')}`);
  return found;
};

const agentUids = async (): Promise<readonly string[]> =>
  (await up.k('get pods -l conversation-operator.dev/sandbox -o jsonpath={.items[*].metadata.uid}'))
    .split(' ')
    .filter((uid) => uid !== '');

interface ContainerState {
  readonly status: {
    readonly containerStatuses: readonly {
      readonly containerID: string;
      readonly ready: boolean;
      readonly restartCount: number;
    }[];
  };
}
const containerOf = async (pod: string) =>
  (await getJson<ContainerState>(`--namespace ${namespace} pod ${pod}`)).status
    .containerStatuses[0];

async function deleteLeader(away: Away): Promise<void> {
  const before = await leader();
  await away('the leading operator', async () => {
    await inRelease(`delete pod ${before} --wait=false`);
    await eventually('another leader', async () => (await leader()) !== before);
  });
}

async function deleteGateway(away: Away): Promise<void> {
  const [first = ''] = (
    await inRelease(
      'get pods -l app.kubernetes.io/component=gateway -o jsonpath={.items[*].metadata.name}',
    )
  ).split(' ');
  await away('a gateway', async () => {
    await inRelease(`delete pod ${first} --timeout=60s`);
    await inRelease(`rollout status deployment ${release}-gateway --timeout=90s`);
  });
}

/** A kubelet that has just begun says of each pod that it is not ready, until it has asked it. */
const readyGateways = async (): Promise<number> => {
  const list = await getJson<{ items: { endpoints?: { conditions: { ready: boolean } }[] }[] }>(
    `--namespace ${namespace} endpointslices -l kubernetes.io/service-name=${release}-gateway`,
  );
  return list.items
    .flatMap(({ endpoints }) => endpoints ?? [])
    .filter(({ conditions }) => conditions.ready).length;
};

const gatewaysReady = (): Promise<unknown> =>
  eventually('both gateways to be ready', async () => (await readyGateways()) === 2);

async function restartKubelet(away: Away): Promise<void> {
  await away('the kubelet', async () => {
    await crash('kubelet');
    await restart();
    // The endpoints of before stay ready until the new kubelet has reported its pods.
    await new Promise((resolve) => setTimeout(resolve, firstReportMs));
    await gatewaysReady();
  });
}

/** Events that may have kept reads from the gateways. */
async function whatHappened(): Promise<string> {
  const events = await kubectl('get events --all-namespaces --sort-by=.lastTimestamp');
  const telling = events
    .split('\n')
    .filter(
      (line) =>
        /node1|gateway|NotReady|Unhealthy/.test(line) && !line.includes('MissingClusterDNS'),
    );
  const gateways = await inRelease(
    'get pods -l app.kubernetes.io/component=gateway -o jsonpath={.items[*].status.conditions}',
  );
  return `${telling.slice(-20).join('\n')}\n${gateways}`;
}

/** Stops the API server for a while; an operator that starts meanwhile recovers by itself. */
async function stopApiServer(away: Away): Promise<void> {
  const names = (
    await inRelease(
      'get pods -l app.kubernetes.io/component=operator -o jsonpath={.items[*].metadata.name}',
    )
  ).split(' ');
  const leading = await leader();
  const standby = names.find((name) => name !== leading) ?? '';
  const before = await containerOf(standby);
  await gatewaysReady();
  await away('a standby operator', async () => {
    await away('the API server', async () => {
      await crash('apiserver');
      const down = new Promise((resolve) => setTimeout(resolve, outageMs));
      await containerTask(before?.containerID ?? '', 'kill --signal SIGKILL');
      await down;
      await restart();
    });
    await eventually(
      'the operator that began without an API server to be ready',
      async () => {
        const now = await containerOf(standby);
        return now !== undefined && now.ready && now.containerID !== before?.containerID;
      },
      90_000,
    );
  });
  expect((await containerOf(standby))?.restartCount).toBe((before?.restartCount ?? 0) + 1);
}

/** Evicts every pod; on the only node none comes back before the node is schedulable again. */
async function drainNode(away: Away): Promise<void> {
  const node = await inRelease(`get pod ${await leader()} -o jsonpath={.spec.nodeName}`);
  const before = await agentUids();
  await away('the node', async () => {
    const drained = kubectl(
      `drain ${node} --ignore-daemonsets --delete-emptydir-data --force --timeout=150s`,
    );
    // The test checks the result at the end.
    drained.catch(() => undefined);
    try {
      await eventually(
        'the agents to be evicted',
        async () => (await agentUids()).every((uid) => !before.includes(uid)),
        90_000,
      );
    } finally {
      await kubectl(`uncordon ${node}`);
    }
    await drained;
  });
}

const ofOwnCluster = stateFolder !== undefined;

describe('while starts run', () => {
  let agents: AgentWatch;
  let reads: ReadWatch;
  const started: string[] = [];
  const absences: Absence[] = [];
  /** Failures of reads that a disturbance has answered for. */
  let judged = 0;

  const away: Away = async (component, during) => {
    const fromMs = Date.now();
    try {
      await during();
    } finally {
      absences.push({ component, fromMs, untilMs: Date.now() });
    }
  };

  /**
   * Reports the reads of a disturbance, and throws for failures that no expectation covers. Through
   * a forwarded port a read ends with the pod that it goes to, so that reads are checked where the
   * Service itself is reached.
   */
  async function judgeReads(name: string, answers: number): Promise<void> {
    const failures = reads.failures.slice(judged);
    judged += failures.length;
    const { sentences, unexpected } = failedReads(failures, absences, expectedFailures);
    report(
      `reads while ${name}`,
      [`${answers} answered, ${failures.length} failed`, ...sentences].join('; '),
    );
    if (!ofOwnCluster || unexpected.length === 0) return;
    throw new Error(`Reads have failed: ${unexpected.join('\n')}\n${await whatHappened()}`);
  }

  beforeAll(async () => {
    await apply({
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'ConversationQuota',
      metadata: { name: 'of-chaos', namespace: sandboxes },
      spec: { scope: 'Owner', owner: 'chaos', limit, onExceeded: 'PauseOldest' },
    });
    agents = await AgentWatch.start(sandboxes, 'chaos');
    reads = new ReadWatch(up);
  });
  afterAll(async () => {
    agents.stop();
    await reads.stop();
    await up.k('delete conversationquota of-chaos --ignore-not-found');
    await Promise.all(started.map((id) => up.call('DELETE', `/api/v1/app-conversations/${id}`)));
  });

  /** Three starts are under way when it happens, and three more come while it does. */
  async function endure(name: string, happens: (away: Away) => Promise<void>): Promise<void> {
    const answersBefore = reads.answers;
    const begin = () =>
      Array.from({ length: 3 }, () => startPersistently(up, '```sh\necho once >>runs.txt\n```'));
    const before = begin();
    const happening = happens(away);
    const during = begin();
    const tasks = await Promise.all([...before, ...during]);
    await happening;
    started.push(...tasks.map((task) => task.app_conversation_id ?? ''));
    expect(tasks.map(({ status, error }) => [status, error])).toEqual(
      tasks.map(() => ['READY', null]),
    );
    expect(reads.answers).toBeGreaterThan(answersBefore);
    await judgeReads(name, reads.answers - answersBefore);
    expect(agents.maxAtOnce).toBeLessThanOrEqual(limit);
  }

  it.each([
    ['the leading operator is deleted', deleteLeader],
    ['a gateway is deleted', deleteGateway],
    ['the node is drained', drainNode],
  ] as const)('%s', endure, 600_000);
  (ofOwnCluster ? it : it.skip).each([
    ['the kubelet is restarted', restartKubelet],
    ['the API server is down for 10 s', stopApiServer],
  ] as const)('%s', endure, 600_000);

  it('no start is lost or doubled', async () => {
    const { body } = await up.call('GET', '/api/v1/app-conversations/search?limit=100');
    const { items } = z
      .object({ items: z.array(z.object({ id: z.string(), sandbox_id: z.string() })) })
      .parse(body);
    expect(items.map(({ id }) => id).toSorted()).toEqual(started.toSorted());
    const names = items.map(({ sandbox_id: name }) => name).toSorted();
    expect(new Set(names).size).toBe(started.length);
    const mine = '{range .items[?(@.spec.owner=="chaos")]}{.metadata.name},{end}';
    expect(
      (await up.k(['get', 'sandboxes', '-o', `jsonpath=${mine}`]))
        .split(',')
        .filter(Boolean)
        .toSorted(),
    ).toEqual(names);
    const claims = (await up.k('get pvc -o jsonpath={.items[*].metadata.name}')).split(' ');
    expect(claims.filter((name) => names.includes(name)).toSorted()).toEqual(names);
    report(
      'starts during chaos',
      `${started.length} of ${started.length} READY, at most ${agents.maxAtOnce} agents`,
    );
    expect(ofOwnCluster ? reads.failures.slice(judged) : []).toEqual([]);
    report(
      'reads during chaos',
      `${reads.answers} answered, ${reads.failures.length} failed, slowest ${Math.round(reads.slowestMs)} ms`,
    );
  });

  (ofOwnCluster ? it : it.skip)('no agent has received any message twice', async () => {
    const { items } = await getJson<{
      items: { spec: { claimRef?: { name?: string }; hostPath?: { path: string } } }[];
    }>('persistentvolumes');
    for (const id of started) {
      const { sandbox_id: sandbox } = await up.conversation(id);
      const folder =
        items.find(({ spec }) => spec.claimRef?.name === sandbox)?.spec.hostPath?.path ?? '';
      expect(
        readdirSync(join(folder, '.agent', 'conversations')).filter(
          (name) => !name.startsWith('.'),
        ),
      ).toHaveLength(1);
      // One that made room at once may not have come to it.
      const runs = join(folder, 'project', 'runs.txt');
      expect(existsSync(runs) ? readFileSync(runs, 'utf8') : 'once\n').toBe('once\n');
    }
  });
});
