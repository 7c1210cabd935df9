import { z } from 'zod';
import { branch } from '../git/names.ts';
import { optional, shownName, shownText } from '../http/fields.ts';

const maxTitleLength = 256;
const maxBodyLength = 65_536;

/** Fields of a request for a pull request, of clients and of agents. */
export const pullRequestFields = {
  title: shownName(maxTitleLength).describe('Title of the pull request.'),
  body: optional(shownText(maxBodyLength)).describe('Description in Markdown.'),
  head: optional(branch()).describe(
    'Branch with the changes. Absent: the branch that was pushed last.',
  ),
  base: optional(branch()).describe(
    'Branch that is to get the changes. Absent: the default branch.',
  ),
  draft: optional(z.boolean()).describe('True: the host asks for no review yet.'),
};
