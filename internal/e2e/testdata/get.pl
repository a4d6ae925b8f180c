# Gets a URL with what Perl has, by LWP and by HTTP::Tiny: file of authorities, URL.
use strict;
use warnings;
use HTTP::Tiny;
use LWP::UserAgent;

my ($authorities, $url) = @ARGV;
my $answer = LWP::UserAgent->new(ssl_opts => {SSL_ca_file => $authorities})->get($url);
print 'LWP ', $answer->code, ' ', $answer->content, "\n";
my $tiny = HTTP::Tiny->new(verify_SSL => 1, SSL_options => {SSL_ca_file => $authorities})->get($url);
print 'Tiny ', $tiny->{status}, ' ', $tiny->{content}, "\n";
