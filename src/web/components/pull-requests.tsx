import type { ConversationRecord } from '../wire.ts';

interface PullRequestLinkProps {
  readonly number: number;
  readonly url: string;
  readonly title?: string;
}

/** A link to a pull request. Only http and https URLs become links. */
export const PullRequestLink = ({ number, url, title }: PullRequestLinkProps) =>
  /^https?:\/\//.test(url) ? (
    <a href={url} title={title} target="_blank" rel="noopener noreferrer">
      Pull request #{number}
    </a>
  ) : (
    <>Pull request #{number}</>
  );

export const PullRequests = ({
  conversation,
}: {
  readonly conversation: ConversationRecord | undefined;
}) => (
  <>
    {(conversation?.pull_requests ?? []).map(({ number, url, title, draft, state }) => (
      <span key={url} class="pull-request">
        <PullRequestLink number={number} url={url} title={title} />{' '}
        {draft && state === 'open' ? 'draft' : state}
      </span>
    ))}
  </>
);
