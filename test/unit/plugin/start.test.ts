import { startRequestOf } from '../../../src/plugin/start.ts';
import { UsageError } from '../../../src/plugin/terminal.ts';

it('the options of start are the fields of a start request', () => {
  const options = { repo: 'acme/app', branch: 'main', template: 'large', title: 'Tests' };
  expect(startRequestOf(options, 'Fix the tests')).toMatchObject({
    initial_message: {
      role: 'user',
      run: true,
      content: [{ type: 'text', text: 'Fix the tests' }],
    },
    selected_repository: 'acme/app',
    selected_branch: 'main',
    sandbox_spec_id: 'large',
    title: 'Tests',
  });
});

it.each([
  ['', {}, '--message: must not be empty'],
  ['x'.repeat(262_145), {}, '--message: must have at most 262144 bytes of text in total'],
  ['x', { repo: 'app' }, '--repo: must be in owner/name form'],
  ['x', { repo: 'acme/app', branch: '-x' }, '--branch: must be the name of a branch'],
  ['x', { branch: 'main' }, '--branch needs --repo: a branch is one of a repository'],
  ['x', { title: 'x'.repeat(201) }, '--title: must have at most 200 characters'],
  ['', { repo: 'app' }, '--message: must not be empty\n--repo: must be in owner/name form'],
])('start refuses %.10j with %.60j', (text, options, message) => {
  const refused = () => startRequestOf(options, text);
  expect(refused).toThrow(UsageError);
  expect(refused).toThrow(message);
});
