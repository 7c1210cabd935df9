import { join } from 'node:path';
import { hookMs, startMs } from '../support/agent-service.ts';
import { eventually } from '../support/eventually.ts';
import {
  agentKeys,
  downloaded,
  eventAnswers,
  eventOf,
  eventTexts,
  fileAnswers,
  grown,
  storedTexts,
} from '../support/history.ts';
import { AcpAgents } from './support/acp-agents.ts';
import { holdTask, scriptTask } from './support/mock-models.ts';

const modelKey = 'llm-key-of-the-tests';
let agents: AcpAgents;

beforeAll(async () => {
  agents = await AcpAgents.start({ AGENTS: 'codex' });
}, hookMs);
afterAll(() => agents.stopKeyless(), hookMs);

describe('codex', () => {
  it('has an archive that answers as the bridge did, also after a pause within a turn', async () => {
    agents.models.script(
      'changes',
      { command: 'echo more >> README.md; echo new > new.txt' },
      { command: 'git status --short' },
      { text: 'Changed.' },
    );
    const { id, sandbox } = await agents.begin(`Work. ${scriptTask('changes')}`, {
      sandbox_spec_id: 'codex',
      confirmation_policy: 'NeverConfirm',
      selected_repository: 'acme/shop',
    });
    const { workspace } = await agents.reaches(id, { execution_status: 'finished' });
    const uid = await agents.k('get', 'sandbox', sandbox, '-o', 'jsonpath={.metadata.uid}');
    const events = (await eventTexts(agents.up, id)).map(eventOf);
    const all = async () => ({
      answers: await eventAnswers(agents.up, id, events),
      files: await fileAnswers(agents.up, id, workspace?.working_dir ?? ''),
      download: (await downloaded(agents.up, id)).slice(0, -1),
    });
    const live = await all();
    expect(live.files.changes).toEqual(
      expect.arrayContaining([
        { status: 'UPDATED', path: 'README.md' },
        { status: 'ADDED', path: 'new.txt' },
      ]),
    );
    await agents.pause(id, sandbox);
    expect(await all()).toEqual(live);

    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`);
    await agents.reaches(id, { sandbox_status: 'RUNNING' });
    await agents.say(id, `Continue. ${holdTask('held')}`);
    await eventually('the prompt', () => agents.models.prompts('held').length === 1, startMs);
    const before = await eventTexts(agents.up, id);
    await agents.pause(id, sandbox);
    const paused = await eventTexts(agents.up, id);
    grown(before, paused);
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`);
    await agents.reaches(id, { sandbox_status: 'RUNNING' });
    const resumed = await eventTexts(agents.up, id);
    grown(paused, resumed);

    const stored = storedTexts(join(agents.up.dataDir, 'archive'));
    expect([...stored.values()].join()).toContain('git status --short');
    for (const secret of [...agentKeys(agents.up, uid), modelKey])
      for (const [path, text] of stored)
        expect([path, text.includes(secret)]).toEqual([path, false]);
  });
});
