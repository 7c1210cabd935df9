import { execFileSync } from 'node:child_process';
import { branch } from '../../../../src/gateway/http/fields.ts';

const isBranch = (name: string): boolean => branch().safeParse(name).success;

/** Whether git takes the text for the name of a branch. */
function isBranchOfGit(name: string): boolean {
  try {
    execFileSync('git', ['check-ref-format', `refs/heads/${name}`]);
    return true;
  } catch {
    return false;
  }
}

it.each([
  'main',
  'agent/fix',
  'agent/fix.1',
  'a@b',
  'ünï/köde',
  'a.lock.b',
  'locked/x',
  'agent/../main',
  'agent/..',
  '../main',
  'a..b',
  'agent//main',
  '/main',
  'main/',
  'main.',
  '.main',
  'agent/.main',
  'main.lock',
  'agent.lock/main',
  'a@{1}',
  'a b',
  'a:b',
  'a\\b',
  'a*',
  'a\nb',
])('%j is the name of a branch where it is one for git', (name) => {
  expect(isBranch(name)).toBe(isBranchOfGit(name));
});

it('an option of git is the name of no branch', () => {
  expect(isBranch('-d')).toBe(false);
});
