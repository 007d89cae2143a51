package fake

import (
	"math/rand/v2"
	"strings"
	"sync"
)

// list is words in a text; ~ in one stands for a space. It is split when it is first used.
type list struct {
	text string

	once  sync.Once
	words []string
}

func (l *list) one(r *rand.Rand) string {
	l.once.Do(func() {
		l.words = strings.Fields(l.text)
		for i, w := range l.words {
			l.words[i] = strings.ReplaceAll(w, "~", " ")
		}
	})
	return l.words[r.IntN(len(l.words))]
}

var (
	firstNames = list{text: `Ada Aisha Alan Alice Amir Ana Anders Anika Anton Aya Bao Beatriz Ben Carla Carlos Chen Chidi Chloe Clara
		Daniel Dara David Diego Dina Ebba Elena Elias Emil Emma Erik Esra Eva Farah Felix Finn Freya Gabriel Grace
		Hana Hugo Ida Imani Ines Ingrid Isaac Ivan Jana Jonas Joy Julia Kai Karim Kofi Lars Laura Leila Leo Lin
		Liv Luca Lucia Maja Marco Maria Marta Mateo Maya Mei Mila Milan Mina Nadia Neil Nina Noah Nora Olga Omar
		Oscar Paul Petra Priya Rafael Ravi Rosa Sam Samira Sara Sofia Tara Theo Tom Uma Vera Viktor Wei Yara Yusuf
		Zoe`}
	lastNames = list{text: `Abe Adams Ahmed Ali Andersen Baker Banerjee Bauer Becker Bell Berg Bianchi Brown Bruno Carter Castro Chen
		Clark Cohen Cook Costa Cruz Dahl Davies Diaz Dubois Evans Fischer Fontaine Ford Garcia Gomez Gray Green
		Gupta Haas Hall Hansen Hill Horvat Hughes Ito Ivanova Jansen Johnson Jones Kaya Keller Khan Kim Klein
		Kovac Kumar Lang Larsen Lee Lewis Lim Lopez Mancini Martin Mbeki Mehta Meyer Miller Moreau Mori Morris
		Muller Nagy Nakamura Ng Nguyen Novak Okafor Olsen Ortiz Park Patel Peeters Perez Petrov Reed Ricci Rossi
		Roy Sato Schmidt Scott Silva Singh Smith Suzuki Tan Taylor Torres Turner Vogel Wagner Walker Wang Weber
		White Wolf Yilmaz`}
	nouns = list{text: `anchor apple arrow basket bell bicycle blanket bottle box bridge brush bucket button cable candle canvas
		card chair clock coat compass copper cup curtain desk door drum engine fabric feather field filter flag
		flower fork frame garden gate glass glove hammer harbor hat hinge house island jacket key kite ladder lake
		lamp leaf lens letter magnet map mirror mountain needle notebook oar orchard oven paper pen pillow pipe
		plate pocket pump quilt raft ribbon river road roof rope saddle sail scarf seed shelf shoe signal spoon
		spring stone table tent thread tower tree valley vase wagon wheel window wire wool`}
	adjectives = list{text: `able amber ample blue bold brave bright brisk broad calm clear clever cool crisp deep eager early fair
		fine firm fresh gentle glad golden grand green handy happy honest keen kind large late light lively loud
		lucky mellow mild modest neat noble old open plain proud pure quick quiet rapid rare ready red rich round
		sharp silver simple slow small smart smooth soft solid still strong sunny sweet swift tall tidy tiny warm
		wide wise young`}
	verbs = list{text: `adds bends brings builds carries catches changes closes counts covers crosses draws fills finds folds
		follows gives guards guides holds joins keeps leads leaves lifts likes makes marks meets mends moves needs
		offers opens paints passes prints pulls reaches reads rings sees sells sends shows signs sorts starts
		takes tests touches turns uses wants washes watches writes`}
	cities = list{text: `Accra Amsterdam Ankara Athens Auckland Austin Bangkok Barcelona Basel Bergen Berlin Bogota Boston Brussels
		Budapest Cairo Cape~Town Chennai Chicago Copenhagen Dakar Delhi Dublin Geneva Ghent Hamburg Hanoi Helsinki
		Istanbul Jakarta Kyoto Lagos Lima Lisbon London Lyon Madrid Manila Melbourne Milan Montreal Nairobi Naples
		Oslo Paris Perth Porto Prague Quito Riga Rome Santiago Seattle Seoul Singapore Sofia Stockholm Sydney
		Taipei Tallinn Tokyo Toronto Turin Utrecht Valencia Vienna Warsaw Zagreb Zurich`}
	streets  = list{text: `Street Road Avenue Lane Way Square Hill Court Drive Terrace`}
	suffixes = list{text: `Ltd Inc GmbH AG SA BV Group Works Partners`}
	jobs     = list{text: `accountant analyst architect baker carpenter chemist clerk consultant cook designer developer doctor
		driver editor electrician engineer farmer gardener journalist judge lawyer librarian manager mechanic
		nurse painter pharmacist photographer pilot plumber professor researcher salesperson scientist secretary
		surveyor tailor teacher technician translator`}
	colors = list{text: `beige black blue bronze brown crimson cyan gold gray green indigo ivory lavender lime magenta maroon navy
		olive orange pink purple red silver tan teal turquoise violet white yellow`}
	domains   = list{text: `example.com example.net example.org`} // RFC 2606: nobody has them
	methods   = list{text: `GET GET GET GET POST POST PUT PATCH DELETE HEAD`}
	statuses  = []int{200, 200, 200, 200, 200, 201, 204, 301, 302, 304, 400, 401, 403, 404, 404, 409, 429, 500, 502, 503}
	levels    = list{text: `debug info info info info warn error`}
	mimeTypes = list{text: `application/json application/pdf application/xml application/zip image/jpeg image/png text/csv text/html
		text/plain video/mp4`}
	endings = list{text: `csv docx gz html jpg json log pdf png txt xlsx xml zip`}
	agents  = list{text: `Mozilla/5.0~(Windows~NT~10.0;~Win64;~x64;~rv:130.0)~Gecko/20100101~Firefox/130.0
		Mozilla/5.0~(Macintosh;~Intel~Mac~OS~X~10_15_7)~AppleWebKit/605.1.15~(KHTML,~like~Gecko)~Version/17.6~Safari/605.1.15
		Mozilla/5.0~(X11;~Linux~x86_64)~AppleWebKit/537.36~(KHTML,~like~Gecko)~Chrome/129.0.0.0~Safari/537.36
		Mozilla/5.0~(iPhone;~CPU~iPhone~OS~17_6~like~Mac~OS~X)~AppleWebKit/605.1.15~(KHTML,~like~Gecko)~Version/17.6~Mobile/15E148~Safari/604.1
		curl/8.9.1 python-requests/2.32.3`}
	// places are country, code, currency and language.
	places = list{text: `Argentina|AR|ARS|es Australia|AU|AUD|en Austria|AT|EUR|de Belgium|BE|EUR|nl Brazil|BR|BRL|pt
		Canada|CA|CAD|en Chile|CL|CLP|es China|CN|CNY|zh Colombia|CO|COP|es Croatia|HR|EUR|hr Denmark|DK|DKK|da
		Egypt|EG|EGP|ar Estonia|EE|EUR|et Finland|FI|EUR|fi France|FR|EUR|fr Germany|DE|EUR|de Ghana|GH|GHS|en
		Greece|GR|EUR|el Hungary|HU|HUF|hu India|IN|INR|hi Indonesia|ID|IDR|id Ireland|IE|EUR|en Italy|IT|EUR|it
		Japan|JP|JPY|ja Kenya|KE|KES|sw Mexico|MX|MXN|es Netherlands|NL|EUR|nl New~Zealand|NZ|NZD|en
		Nigeria|NG|NGN|en Norway|NO|NOK|no Peru|PE|PEN|es Philippines|PH|PHP|tl Poland|PL|PLN|pl
		Portugal|PT|EUR|pt Singapore|SG|SGD|en South~Africa|ZA|ZAR|en South~Korea|KR|KRW|ko Spain|ES|EUR|es
		Sweden|SE|SEK|sv Switzerland|CH|CHF|de Thailand|TH|THB|th Turkey|TR|TRY|tr United~Kingdom|GB|GBP|en
		United~States|US|USD|en Vietnam|VN|VND|vi`}
	zones = list{text: `Africa/Cairo Africa/Lagos America/Bogota America/Chicago America/New_York America/Sao_Paulo Asia/Dubai
		Asia/Kolkata Asia/Singapore Asia/Tokyo Australia/Sydney Europe/Berlin Europe/London Europe/Madrid
		Europe/Paris Europe/Zurich Pacific/Auckland UTC`}
)
