import { readFileSync } from 'node:fs';
import { chartFolder, helm } from '../../../helm/tools/render.ts';

it('README.md shows the notes that an installation prints', async () => {
  const images = ['image', 'defaultTemplate.image'].map((name) => `--set=${name}.repository=x`);
  const release = ['conversation-operator', chartFolder, '--namespace', 'agents'];
  const printed = await helm(4, ['install', ...release, '--dry-run=client', ...images]);
  const notes = printed.slice(printed.indexOf('NOTES:')).trim();
  expect(notes).toContain('Start a conversation and see it:');
  expect(readFileSync('README.md', 'utf8')).toContain(`\n${notes}\n`);
});
