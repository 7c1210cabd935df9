import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { saying } from '../support/rest-user.ts';
import { feature, readme, setUpFile } from './support/git-server.ts';
import { report, TestedInstallation } from './support/installation.ts';

const up = new TestedInstallation('story');
const readyMs = 60_000;

const elementSchema = z.object({
  id: z.string(),
  status: z.string(),
  error: z.string().nullable(),
  app_conversation_id: z.string().nullable(),
  sandbox_id: z.string().nullable(),
});
const streamStart = async (body: object) => {
  const { status, body: elements } = await up.call(
    'POST',
    '/api/v1/app-conversations/stream-start',
    body,
  );
  expect(status).toBe(200);
  return z.array(elementSchema).parse(elements);
};

/** A conversation that has been started, with what belongs to it. */
async function started(body: object) {
  const elements = await streamStart(body);
  const last = elements.at(-1);
  expect(last).toMatchObject({ status: 'READY', error: null });
  return { elements, id: last?.app_conversation_id ?? '', sandbox: last?.sandbox_id ?? '' };
}

const inProject = (sandbox: string, script: string) =>
  up.inSandbox(sandbox, `cd /workspace/project && ${script}`);

describe('a conversation on a cluster', () => {
  let id: string;
  let sandbox: string;

  it('starts with its repository cloned and set up, and each status is streamed once', async () => {
    const text = 'Read it:\n```sh\ncat README.md && echo kept >kept.txt\n```';
    const { elements, ...ids } = await started({
      ...saying(text),
      selected_repository: 'acme/shop',
      title: 'The first one',
    });
    ({ id, sandbox } = ids);
    expect(elements.map(({ status }) => status)).toEqual([
      'WORKING',
      'WAITING_FOR_SANDBOX',
      'PREPARING_REPOSITORY',
      'SETTING_UP_SKILLS',
      'READY',
    ]);
    await up.reaches(
      id,
      { execution_status: 'finished', sandbox_status: 'RUNNING', sandbox_id: sandbox },
      readyMs,
    );
    expect(await inProject(sandbox, `cat README.md kept.txt ${setUpFile}`)).toBe(
      `${readme}\nkept\ndone`,
    );
  });

  it('is shown by kubectl', async () => {
    const [head, row] = (await up.k(`get conversations ${id}`)).split('\n');
    expect(head?.split(/\s+/)).toEqual([
      'NAME',
      'TITLE',
      'SANDBOX',
      'EXECUTION',
      'APPROVAL',
      'START',
      'REPOSITORY',
      'PR',
      'OWNER',
      'AGE',
    ]);
    const cells = row?.split(/ {3,}/) ?? [];
    expect(cells.slice(0, -1)).toEqual([
      id,
      'The first one',
      'RUNNING',
      'finished',
      'READY',
      'acme/shop',
      'story',
    ]);
    expect(cells.at(-1)).toMatch(/^\d+[ms]/);
    expect(
      await up.k(
        `get events --field-selector involvedObject.name=${sandbox} -o jsonpath={.items[*].reason}`,
      ),
    ).toMatch(/\w/);
  });

  it('is listed and found by its owner, and by no other user', async () => {
    const search = '/api/v1/app-conversations/search?title__contains=first%20one';
    expect((await up.call('GET', search)).body).toMatchObject({
      items: [{ id, selected_repository: 'acme/shop' }],
      next_page_id: null,
    });
    const stranger = new TestedInstallation('client');
    expect((await stranger.call('GET', search)).body).toMatchObject({ items: [] });
    expect((await stranger.call('GET', `/api/v1/app-conversations?ids=${id}`)).body).toEqual([]);
    expect((await fetch(`${up.url}${search}`)).status).toBe(401);
  });

  it('runs in a pod without root, without a token, with everything that the restricted standard asks for', async () => {
    expect(
      await up.inSandbox(sandbox, 'id -u; ls /var/run/secrets/kubernetes.io 2>&1 || true'),
    ).toMatch(/^10001\n.*No such file/);
    const { spec } = JSON.parse(await up.k(`get pod ${sandbox} -o json`)) as { spec: object };
    expect(spec).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        { securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } } },
      ],
    });
  });

  it('pauses, and its pod goes while its volume stays', async () => {
    expect((await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`)).body).toEqual({
      success: true,
    });
    await up.reaches(id, { sandbox_status: 'PAUSED', sandbox_status_reason: 'user' }, readyMs);
    await eventually(
      'its pod to go',
      async () => (await up.k(`get pod ${sandbox} --ignore-not-found`)) === '',
      readyMs,
    );
    expect(await up.k(`get pvc ${sandbox} -o jsonpath={.status.phase}`)).toBe('Bound');
  });

  it('resumes with its files', async () => {
    expect((await up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`)).body).toEqual({
      success: true,
    });
    await up.reaches(id, { sandbox_status: 'RUNNING', execution_status: 'finished' }, readyMs);
    expect(await inProject(sandbox, 'cat kept.txt')).toBe('kept');
  });

  it('pauses and resumes by kubectl scale', async () => {
    await up.k(`scale sandbox ${sandbox} --replicas=0`);
    await up.reaches(id, { sandbox_status: 'PAUSED', sandbox_status_reason: 'user' }, readyMs);
    await up.k(`scale sandbox ${sandbox} --replicas=1`);
    await up.reaches(id, { sandbox_status: 'RUNNING' }, readyMs);
  });

  it('is deleted with everything that belongs to it', async () => {
    expect((await up.call('DELETE', `/api/v1/app-conversations/${id}`)).body).toEqual({
      success: true,
    });
    await eventually(
      'nothing of it to be left',
      async () => {
        const left = await up.k('get conversations,sandboxes,pods,pvc -o name');
        return !left.includes(id) && !left.includes(sandbox);
      },
      readyMs,
    );
    expect((await up.call('GET', `/api/v1/app-conversations?ids=${id}`)).body).toEqual([]);
  });

  it('is MISSING once its sandbox has been deleted', async () => {
    const other = await started(saying('Hello.'));
    await up.k(`delete sandbox ${other.sandbox}`);
    await up.reaches(other.id, { sandbox_status: 'MISSING', execution_status: null }, readyMs);
    expect(await up.k(`get conv ${other.id}`)).toContain('MISSING');
    expect((await up.call('POST', `/api/v1/sandboxes/${other.sandbox}/resume`)).status).toBe(404);
    await up.call('DELETE', `/api/v1/app-conversations/${other.id}`);
  });
});

describe('a repository', () => {
  it('is checked out at the branch that the start names', async () => {
    const { id, sandbox } = await started({
      ...saying('Hello.'),
      selected_repository: 'acme/shop',
      selected_branch: 'feature',
    });
    expect(await inProject(sandbox, 'git branch --show-current; cat README.md')).toBe(
      `feature\n${feature}`,
    );
    await up.call('DELETE', `/api/v1/app-conversations/${id}`);
  });
});

describe('a start', () => {
  // Alone on two cores it takes 3 s.
  it('takes no more than 15 s from the request to READY, at the median of ten', async () => {
    const seconds: number[] = [];
    for (let index = 0; index < 10; index++) {
      const begun = performance.now();
      const { id } = await started(saying('Hello.'));
      seconds.push((performance.now() - begun) / 1000);
      await up.call('DELETE', `/api/v1/app-conversations/${id}`);
    }
    const sorted = seconds.toSorted((one, other) => one - other);
    const median = ((sorted[4] ?? 0) + (sorted[5] ?? 0)) / 2;
    report(
      'POST to READY, p50 of 10',
      `${median.toFixed(2)} s (${sorted.map((each) => each.toFixed(1)).join(' ')})`,
    );
    expect(median).toBeLessThanOrEqual(15);
  });
});
