//! Where fields of GitHub's GraphQL lead (`spec/forges.md#graphql`).

use crate::api::{ApiChange, COMMENTS, CREATES_ISSUE, CREATES_PULL_REQUEST};

/// Subjects of selections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// The project's repository, and what belongs to it.
    Project,
    /// People, teams and boards, of which only values are read.
    About,
    /// Repositories, issues and pull requests that may be others, of which only names are read.
    Elsewhere,
    /// Issues that a person has tied to this one, of which titles are read, too.
    Tied,
    /// Types that servers have.
    Schema,
}

impl Reach {
    /// Returns where selections lead; `None` if that is not known.
    pub(crate) fn enter(self, field: &str) -> Option<Reach> {
        let is_in = |list: &str| has(list, field);
        match self {
            Reach::Schema => Some(Reach::Schema),
            same if is_in(LISTS) => Some(same),
            Reach::Project if is_in(PROJECT) => Some(Reach::Project),
            Reach::Project if is_in(ABOUT) => Some(Reach::About),
            Reach::About if is_in(ABOUT) => Some(Reach::About),
            Reach::Project if is_in(ELSEWHERE) => Some(Reach::Elsewhere),
            Reach::Project if is_in(TIED) => Some(Reach::Tied),
            Reach::Elsewhere | Reach::Tied if is_in(OF_ELSEWHERE) => Some(Reach::Elsewhere),
            _ => None,
        }
    }

    /// Returns whether a field without selections is read here.
    pub(crate) fn has_value(self, field: &str) -> bool {
        match self {
            Reach::Elsewhere => has(NAMES, field),
            Reach::Tied => has(NAMES, field) || field == "title",
            _ => true,
        }
    }
}

/// Returns whether a name is one of a list's words.
fn has(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|word| word == name)
}

/// Parts of lists.
const LISTS: &str = "edges node nodes pageInfo";

/// Fields that lead to what belongs to the same repository.
const PROJECT: &str = "\
    assignable autoMergeRequest baseRef checkRuns checkSuite checkSuites codeOfConduct comment \
    commentEdge comments commit commits contactLinks contexts defaultBranchRef discussion \
    discussionCategories discussions entries files history issue issueOrPullRequest \
    issueTemplates issueType issueTypes issues label labelable labels languages \
    latestOpinionatedReviews latestRelease latestReviews licenseInfo mergeCommit mergeQueue \
    mergeQueueEntry milestone milestones object parents pinnedIssues potentialMergeCommit \
    primaryLanguage pullRequest pullRequestReview pullRequestTemplates pullRequests \
    reactionGroups reactions ref refs release releaseAssets releases repository repositoryTopics \
    requestedReviewers reviewRequests reviewThreads reviews status statusCheckRollup statuses \
    subject tagCommit target topic tree workflow workflowRun";

/// Fields that lead to people, teams and boards.
const ABOUT: &str = "\
    actor app asCodeOwner assignableUsers assignedActors assignees author authors column \
    committer creator editor enabledBy headRepositoryOwner mentionableUsers mergedBy \
    fieldValueByName organization owner project projectCards projectItems requestedReviewer \
    reviewer suggestedActors suggestedReviewers teams uploader user users viewer";

/// Fields that may lead to other repositories.
const ELSEWHERE: &str = "\
    closedByPullRequestsReferences closingIssuesReferences forks headRef headRepository \
    templateRepository";

/// Fields that lead to issues which only people tie to others, and to the repository of a fork.
const TIED: &str = "blockedBy blocking parent subIssues subIssuesSummary";

/// Fields with selections there.
const OF_ELSEWHERE: &str = "defaultBranchRef owner parent repository";

/// Values that are read there.
const NAMES: &str = "\
    __typename completed databaseId description endCursor hasIssuesEnabled hasNextPage \
    hasWikiEnabled id isPrivate login mergeCommitAllowed name nameWithOwner number \
    percentCompleted rebaseMergeAllowed squashMergeAllowed sshUrl state total totalCount url \
    viewerPermission";

/// Returns what a mutation changes; `None` if it is not in the table. References and files are not there: they are pushed.
pub(crate) fn mutation(field: &str) -> Option<ApiChange> {
    MUTATIONS.iter().find(|(name, _)| *name == field).map(|(_, change)| *change)
}

const MUTATIONS: &[(&str, ApiChange)] = &[
    ("addAssigneesToAssignable", ApiChange::each("changes assignees")),
    ("addComment", ApiChange::of_session(COMMENTS)),
    ("addLabelsToLabelable", ApiChange::each("changes labels")),
    ("addPullRequestReview", ApiChange::each("reviews a pull request")),
    ("closeIssue", ApiChange::each("closes an issue")),
    ("closePullRequest", ApiChange::each("closes a pull request")),
    ("convertPullRequestToDraft", ApiChange::each("changes a pull request")),
    ("createIssue", ApiChange::of_session(CREATES_ISSUE)),
    ("createPullRequest", ApiChange::of_session(CREATES_PULL_REQUEST)),
    ("deleteIssueComment", ApiChange::each("DELETES a comment")),
    ("disablePullRequestAutoMerge", ApiChange::each("changes a pull request")),
    ("enablePullRequestAutoMerge", ApiChange::each("MERGES a pull request, once its checks pass")),
    ("markPullRequestReadyForReview", ApiChange::each("changes a pull request")),
    ("mergePullRequest", ApiChange::each("MERGES a pull request")),
    ("removeAssigneesFromAssignable", ApiChange::each("changes assignees")),
    ("removeLabelsFromLabelable", ApiChange::each("changes labels")),
    ("reopenIssue", ApiChange::each("reopens an issue")),
    ("reopenPullRequest", ApiChange::each("reopens a pull request")),
    ("replaceActorsForAssignable", ApiChange::each("changes assignees")),
    ("requestReviews", ApiChange::each("asks for a review")),
    ("requestReviewsByLogin", ApiChange::each("asks for a review")),
    ("updateIssue", ApiChange::each("changes an issue")),
    ("updateIssueComment", ApiChange::each("changes a comment")),
    ("updatePullRequest", ApiChange::each("changes a pull request")),
];
