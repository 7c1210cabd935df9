import { readFileSync } from 'node:fs';
import { chartFolder, helm } from '../../../helm/tools/render.ts';

it('README.md shows the first commands of the notes that an installation prints', async () => {
  const images = ['image', 'defaultTemplate.image'].map((name) => `--set=${name}.repository=x`);
  const release = ['conversation-operator', chartFolder, '--namespace', 'agents'];
  const printed = await helm(4, ['install', ...release, '--dry-run=client', ...images]);
  const [, commands = ''] =
    /Start a conversation and see it:\n\n(.*?)\n\n/s.exec(
      printed.slice(printed.indexOf('NOTES:')),
    ) ?? [];
  expect(commands).toContain('get conversations');
  expect(readFileSync('README.md', 'utf8')).toContain(`\n${commands.replaceAll(/^ {2}/gm, '')}\n`);
});
