import type { ComponentChildren } from 'preact';

interface SkeletonProps {
  /** Number of lines in the place of the content. */
  readonly lines: number;
  /** The words for people who do not see the lines. */
  readonly children: ComponentChildren;
}

/** The place of a content that is being read. */
export const Skeleton = ({ lines, children }: SkeletonProps) => (
  <div class="skeleton">
    <span class="unseen">{children}</span>
    {Array.from({ length: lines }, (_, index) => (
      <span key={index} class="skeleton-line" />
    ))}
  </div>
);
